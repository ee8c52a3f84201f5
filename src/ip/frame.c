/* SPDX-License-Identifier: MIT */
/* ip/frame.c - the packets of a frame; see frame.h */
#include "ip/frame.h"

#include "ip/gso.h"

/* Copies @len bytes of payload from @off on. */
static void payload_copy(const struct tcp_frame *f, uint32_t off, uint32_t len,
			 uint8_t *out)
{
	for (uint32_t i = 0; i < f->n_pieces && len; i++) {
		const struct tcp_piece *p = &f->pieces[i];
		uint32_t skip = MIN(off, p->len);
		uint32_t part = MIN(p->len - skip, len);

		memcpy(out, p->data + skip, part);
		out += part;
		off -= skip;
		len -= part;
	}
	assert(!len);
}

uint32_t frame_whole(const struct tcp_frame *f, uint8_t *out)
{
	memcpy(out, f->head, f->head_len);
	payload_copy(f, 0, f->len, out + f->head_len);
	return f->head_len + f->len;
}

uint32_t frame_packet(const struct tcp_frame *f, uint32_t i, uint8_t *out)
{
	if (!f->gso_size)
		return i ? 0 : frame_whole(f, out);
	uint32_t off = i * f->gso_size;
	if (off >= f->len)
		return 0;
	uint32_t part = MIN(f->gso_size, f->len - off);

	memcpy(out, f->head, f->head_len);
	payload_copy(f, off, part, out + f->head_len);
	gso_fit(out, f->ip_len, f->head_len, part, off, off + part == f->len,
		i);
	return f->head_len + part;
}
