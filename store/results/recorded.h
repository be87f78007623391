/* store/results/recorded.h - when a recording was made, as its tags tell it. Pure; any thread. */
#ifndef NIGHTSHIFT_STORE_RESULTS_RECORDED_H
#define NIGHTSHIFT_STORE_RESULTS_RECORDED_H

#include <stdbool.h>

#define RECORDED_LEN 11 /* "2003-05-17" and the NUL */
#define RECORDED_FIRST_YEAR 1850

/* A text that begins with the year: 2003, 2003-05, 2003-05-17, 2003:05:17, 2003/05/17, 20030517,
 * each day also with a time behind it; a month or day of zeros is none. True: ret is "2003",
 * "2003-05" or "2003-05-17". False: no date of that kind, none of the calendar, or none between
 * 1850 and last_year, and ret is untouched. */
bool recorded_date(const char *text, int last_year, char ret[RECORDED_LEN]);

/* How soon a tag is believed about it: 1 first, larger later, no two alike; 0: it is about
 * something else. Upper and lower case are alike, and so are blanks, hyphens and underscores. */
int recorded_rank(const char *source, const char *key);
/* The clock of a device or of a program that made the file: believed last, and only of a year in
 * which there were such files, since what never got a date has one of an epoch's beginning. */
#define RECORDED_CLOCK "creation_time"
#define RECORDED_CLOCK_YEAR 1990

#endif
