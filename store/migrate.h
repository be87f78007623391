/* store/migrate.h - brings a catalog from its schema number (PRAGMA user_version) to ours.
 *
 * Internal to store/. Each migration is one transaction: a crash between two leaves the first. */
#ifndef NIGHTSHIFT_STORE_MIGRATE_H
#define NIGHTSHIFT_STORE_MIGRATE_H

#include "store/db.h"

struct migration {
    int number;
    const char *name; /* NULL ends the list */
    const char *sql;
};
/* Made from migrations/ at build time, ascending by number. A new catalog is made by all of them.
 */
extern const struct migration migrations[];
extern const int migrations_last;

/* Tells what kind of file was opened. ERR_INPUT: not a catalog; ERR_VERSION: a newer one, or a
 * development version's; ERR_CORRUPT: not a database. *version is 0 for an empty file. Reads
 * only. */
int migrate_check(struct store *st, int *version, struct err *err);
/* Applies what is missing after `version`: after an error the catalog has some of it, each whole,
 * and a new one has nothing. */
int migrate_apply(struct store *st, int version, struct err *err);

#endif
