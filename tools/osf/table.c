/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/table.c - aligned columns for a terminal
 *
 *     stat_print.c, bench_print.c -> rows of cells -> lines of one width
 *
 * Cells hold ASCII only: a byte is a column of the screen.
 */
#include "osf.h"
#include "table.h"
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define GAP 2 /* blanks between two columns */

struct screen screen_of(FILE *out)
{
	struct screen s = { 0 };
	struct winsize size;
	const char *no_color = getenv("NO_COLOR");

	s.is_terminal = isatty(fileno(out));
	if (!s.is_terminal)
		return s;
	s.has_colours = !no_color || !*no_color;
	s.width = 80;
	if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col)
		s.width = size.ws_col;
	return s;
}

void table_row(struct table *t, const char *style)
{
	t->styles = xgrow(t->styles, t->n_rows, sizeof(*t->styles));
	t->styles[t->n_rows++] = style;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	va_list ap;

	t->cells = xgrow(t->cells, t->n_cells, sizeof(*t->cells));
	va_start(ap, fmt);
	t->cells[t->n_cells++] = xvasprintf(fmt, ap);
	va_end(ap);
}

void table_free(struct table *t)
{
	for (size_t i = 0; i < t->n_cells; i++)
		free(t->cells[i]);
	free(t->cells);
	free(t->styles);
	t->cells = NULL;
	t->styles = NULL;
	t->n_cells = t->n_rows = 0;
}

static bool is_spare(const struct table *t, size_t col)
{
	return t->headings[col][0] == '?';
}

static bool is_right(const struct table *t, size_t col)
{
	return t->headings[col][is_spare(t, col)] == '>';
}

static const char *heading(const struct table *t, size_t col)
{
	return t->headings[col] + is_spare(t, col) + is_right(t, col);
}

static size_t column_width(const struct table *t, size_t col)
{
	size_t width = strlen(heading(t, col));

	for (size_t i = col; i < t->n_cells; i += t->n_columns) {
		size_t n = strlen(t->cells[i]);
		if (n > width)
			width = n;
	}
	return width;
}

static void note_cut(const struct screen *s)
{
	if (s->was_cut)
		*s->was_cut = true;
}

void screen_line(const struct screen *s, FILE *out, const char *style,
		 const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	char *text = xvasprintf(fmt, ap);
	va_end(ap);

	if (s->width && strlen(text) > s->width) {
		text[s->width] = '\0';
		note_cut(s);
	}
	for (size_t n = strlen(text); n && text[n - 1] == ' ';)
		text[--n] = '\0';
	if (style && s->has_colours)
		fprintf(out, "%s%s%s\n", style, text, STYLE_NONE);
	else
		fprintf(out, "%s\n", text);
	free(text);
}

void screen_tell_cut(const struct screen *s, FILE *out, const char *how)
{
	struct screen wide = *s;

	wide.width = 0;
	if (s->was_cut && *s->was_cut)
		screen_line(&wide, out, STYLE_DIM, "Cut to %u columns; %s.",
			    s->width, how);
}

/* Row @row, or the headings for the row before the first. */
static void print_row(const struct table *t, FILE *out, const struct screen *s,
		      const size_t *width, size_t row)
{
	bool is_head = row == SIZE_MAX;
	char *line = NULL;
	size_t size = 0;

	FILE *f = open_memstream(&line, &size);
	for (size_t i = 0; f && i < t->n_columns; i++) {
		const char *text =
		    is_head ? heading(t, i) : t->cells[row * t->n_columns + i];
		int w = (int)width[i];

		if (!w)
			continue; /* spared */
		fprintf(f, "%*s%*s", i ? GAP : 0, "", is_right(t, i) ? w : -w,
			text);
	}
	if (f)
		fclose(f);
	screen_line(s, out, is_head ? STYLE_DIM : t->styles[row], "%s",
		    line ? line : "");
	free(line);
}

static size_t table_width(const struct table *t, const size_t *width)
{
	size_t sum = 0;

	for (size_t i = 0; i < t->n_columns; i++)
		sum += width[i] ? width[i] + (i ? GAP : 0) : 0;
	return sum;
}

/* Sets the widths of columns that do not fit to 0. */
static void spare_columns(const struct table *t, size_t *width,
			  const struct screen *s)
{
	for (size_t i = t->n_columns; i-- > 0;)
		if (is_spare(t, i) && table_width(t, width) > s->width) {
			width[i] = 0;
			note_cut(s);
		}
}

void table_print(const struct table *t, FILE *out, const struct screen *s)
{
	size_t *width = xcalloc(t->n_columns, sizeof(*width));

	for (size_t i = 0; i < t->n_columns; i++)
		width[i] = column_width(t, i);
	if (s->width)
		spare_columns(t, width, s);
	print_row(t, out, s, width, SIZE_MAX);
	for (size_t row = 0; row < t->n_rows; row++)
		print_row(t, out, s, width, row);
	free(width);
}
