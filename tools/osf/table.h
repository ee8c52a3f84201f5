/* SPDX-License-Identifier: MIT */
/*
 * tools/osf/table.h - aligned columns for a terminal
 *
 * The caller adds cells row by row; a column is as wide as its widest cell.  If the table
 * is wider than the terminal, it first loses the columns whose headings allow it, and then
 * its right end.
 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define STYLE_BOLD "\033[1m"
#define STYLE_DIM "\033[2m"
#define STYLE_GREEN "\033[32m"
#define STYLE_RED "\033[31m"
#define STYLE_NONE "\033[0m"

/* Headings: the cells under ">TEXT" are aligned to the right.  A column under "?TEXT" or
 * "?>TEXT" may be left out, the last of them first. */
struct table {
	const char *const *headings;
	size_t n_columns;
	char **cells;
	size_t n_cells;
	const char **styles; /* one for each row, NULL is plain */
	size_t n_rows;
};

/* Where and how it is printed. */
struct screen {
	unsigned width;  /* columns; 0 is without end */
	bool *was_cut;   /* set when something did not fit; may be NULL */
	int has_colours; /* a terminal, and NO_COLOR is not set */
	int is_terminal;
};

struct screen screen_of(FILE *out);

/* A row: then n_columns times table_cell(). */
void table_row(struct table *t, const char *style);
void table_cell(struct table *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
void table_print(const struct table *t, FILE *out, const struct screen *s);
void table_free(struct table *t);

/* Says how to see what was cut to @s, if anything was: @how. */
void screen_tell_cut(const struct screen *s, FILE *out, const char *how);

/* One line of text, cut to the screen, in @style where it has colours. */
void screen_line(const struct screen *s, FILE *out, const char *style,
		 const char *fmt, ...) __attribute__((format(printf, 4, 5)));
