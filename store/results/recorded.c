#include "store/results/recorded.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int days_of(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

    return month == 2 && leap ? 29 : days[month - 1];
}

/* Exactly n digits at *p, which moves behind them; -1: they are not there. */
static int parse_digits(const char **p, int n)
{
    int v = 0;

    for (int i = 0; i < n; i++) {
        if (!isdigit((unsigned char)(*p)[i]))
            return -1;
        v = v * 10 + (*p)[i] - '0';
    }
    *p += n;
    return v;
}

/* A month or a day: behind the separator that the text uses, '\0' none. */
static int parse_month_or_day(const char **p, char separator)
{
    const char *at = *p;
    int v;

    if (separator && *at++ != separator)
        return -1;
    v = parse_digits(&at, 2);
    if (v >= 0)
        *p = at;
    return v;
}

bool recorded_date(const char *text, int last_year, char ret[RECORDED_LEN])
{
    const char *p = text + strspn(text, " \t\r\n");
    int year = parse_digits(&p, 4), month = 0, day = 0;
    char separator = *p && strchr("-:/.", *p) ? *p : '\0';

    if (year < RECORDED_FIRST_YEAR || year > last_year)
        return false;
    if (separator || isdigit((unsigned char)*p)) {
        month = parse_month_or_day(&p, separator);
        if (month < 0 || month > 12)
            return false;
        if (separator ? *p == separator : isdigit((unsigned char)*p))
            day = parse_month_or_day(&p, separator);
        else if (!separator) /* "200305" may be anything */
            return false;
        if (day < 0 || (day > 0 && (month == 0 || day > days_of(year, month))))
            return false;
    }
    if (*p && !strchr(" \t\r\n", *p) && !(day > 0 && *p == 'T'))
        return false;
    if (day == 0 && p[strspn(p, " \t\r\n")])
        return false;
    if (month == 0)
        snprintf(ret, RECORDED_LEN, "%04d", year);
    else if (day == 0)
        snprintf(ret, RECORDED_LEN, "%04d-%02d", year, month);
    else
        snprintf(ret, RECORDED_LEN, "%04d-%02d-%02d", year, month, day);
    return true;
}

static bool key_equals_name(const char *key, const char *name)
{
    for (; *key && *name; key++, name++) {
        char c = (char)tolower((unsigned char)*key);

        if ((c == ' ' || c == '-' ? '_' : c) != *name)
            return false;
    }
    return *key == *name;
}

int recorded_rank(const char *source, const char *key)
{
    static const struct {
        const char *source; /* NULL: the container and its track */
        const char *key;
    } known[] = {
        {"csv", "recorded_on"},
        {"csv", "recorded"},
        {"csv", "recording_date"},
        {"csv", "date_recorded"},
        {"csv", "date_of_recording"},
        {"csv", "date"},
        {"csv", "year"},
        {"bext", "origination_date"},
        {"ixml", "bext/bwf_origination_date"},
        {NULL, "date_recorded"},
        {NULL, "recording_date"},
        {NULL, "com.apple.quicktime.creationdate"},
        {NULL, "date"},
        {NULL, "year"},
        {NULL, "tdrc"},
        {NULL, "tyer"},
        {NULL, "icrd"},
        {NULL, "tdor"},
        {NULL, "tory"},
        {NULL, "originaldate"},
        {NULL, "originalyear"},
        {NULL, RECORDED_CLOCK},
    };
    bool container = strcmp(source, "container") == 0 || strcmp(source, "stream") == 0;

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if ((known[i].source ? strcmp(known[i].source, source) == 0 : container) &&
            key_equals_name(key, known[i].key))
            return (int)i + 1;
    return 0;
}
