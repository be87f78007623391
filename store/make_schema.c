/* make_schema FILE.c - the schema that all migrations come to, as one script.
 *
 * A new catalog is made by it, in a tenth of the time that the migrations take, which make and drop
 * most triggers several times. They are run here, when the program is built, in memory; so nothing
 * is written down twice. */
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "store/migrate.h"

static sqlite3 *db;
static bool failed;

static void fail_at(const char *what)
{
    fprintf(stderr, "make_schema: %s: %s\n", what, sqlite3_errmsg(db));
    failed = true;
}

/* NULL: it failed. */
static sqlite3_stmt *prepare(const char *sql)
{
    sqlite3_stmt *stmt;

    if (sqlite3_prepare_v2(db, sql, -1, &stmt, NULL) != SQLITE_OK)
        fail_at(sql);
    return stmt;
}

/* Whether there is a row more; where not, the statement is gone. */
static bool next(sqlite3_stmt *stmt)
{
    int rc = stmt ? sqlite3_step(stmt) : SQLITE_DONE;

    if (rc == SQLITE_ROW)
        return true;
    if (rc != SQLITE_DONE)
        fail_at(sqlite3_sql(stmt));
    sqlite3_finalize(stmt);
    return false;
}

static const char *text(sqlite3_stmt *stmt, int column)
{
    return (const char *)sqlite3_column_text(stmt, column);
}

static void put_value(struct buf *out, sqlite3_stmt *stmt, int column)
{
    char *quoted;

    switch (sqlite3_column_type(stmt, column)) {
    case SQLITE_NULL:
        buf_printf(out, "NULL");
        return;
    case SQLITE_INTEGER:
        buf_printf(out, "%lld", (long long)sqlite3_column_int64(stmt, column));
        return;
    case SQLITE_TEXT:
        quoted = sqlite3_mprintf("%Q", text(stmt, column));
        buf_printf(out, "%s", quoted ? quoted : "");
        sqlite3_free(quoted);
        return;
    default:
        fail_at("a row of a new catalog holds a number with a fraction, or bytes");
    }
}

static void put_rows(struct buf *out, const char *table)
{
    char *sql = sqlite3_mprintf("SELECT * FROM \"%w\"", table);
    sqlite3_stmt *stmt = prepare(sql);

    sqlite3_free(sql);
    while (next(stmt)) {
        /* Each catalog has one of its own. */
        bool identity = strcmp(table, "setting") == 0 && strcmp(text(stmt, 0), "identity") == 0;

        buf_printf(out, "INSERT INTO \"%s\" VALUES (", table);
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            buf_printf(out, "%s", i ? ", " : "");
            if (identity && i == 1)
                buf_printf(out, "lower(hex(randomblob(16)))");
            else
                put_value(out, stmt, i);
        }
        buf_printf(out, ");\n");
    }
}

/* What the migrations told an index of FTS5; its own tables cannot be written to. */
static void put_settings(struct buf *out, const char *index)
{
    char *sql = sqlite3_mprintf("SELECT k, v FROM \"%w_config\" WHERE k <> 'version'", index);
    sqlite3_stmt *stmt = prepare(sql);

    sqlite3_free(sql);
    while (next(stmt)) {
        buf_printf(out, "INSERT INTO \"%s\" (\"%s\", rank) VALUES ('%s', ", index, index,
                   text(stmt, 0));
        put_value(out, stmt, 1);
        buf_printf(out, ");\n");
    }
}

/* Triggers come last, or the rows would set them off. */
static void put_schema(struct buf *out)
{
    static const char own_tables[] =
        "FROM sqlite_schema s JOIN pragma_table_list(s.name) l WHERE s.type = 'table' AND l.schema "
        "= "
        "'main' AND l.type IN ('table', 'virtual') AND s.name NOT LIKE 'sqlite_%' ";
    char sql[400];
    sqlite3_stmt *stmt;

    snprintf(sql, sizeof(sql), "SELECT s.sql %s ORDER BY s.rowid", own_tables);
    for (stmt = prepare(sql); next(stmt);)
        buf_printf(out, "%s;\n", text(stmt, 0));
    snprintf(sql, sizeof(sql), "SELECT s.name %s AND l.type = 'table' ORDER BY s.rowid",
             own_tables);
    for (stmt = prepare(sql); next(stmt);)
        put_rows(out, text(stmt, 0));
    snprintf(sql, sizeof(sql), "SELECT s.name %s AND l.type = 'virtual' ORDER BY s.rowid",
             own_tables);
    for (stmt = prepare(sql); next(stmt);)
        put_settings(out, text(stmt, 0));
    stmt = prepare("SELECT sql FROM sqlite_schema WHERE type <> 'table' AND sql IS NOT NULL "
                   "ORDER BY rowid");
    while (next(stmt))
        buf_printf(out, "%s;\n", text(stmt, 0));
}

static bool write_source(const char *path, struct buf *script)
{
    FILE *f = buf_cstr(script) ? fopen(path, "w") : NULL;

    if (!f)
        return false;
    fprintf(f,
            "/* Made from migrations/ by store/make_schema.c. */\n#include \"store/migrate.h\"\n\n"
            "static const unsigned char sql[] = {");
    for (size_t i = 0; i <= script->len; i++)
        fprintf(f, "%s%u,", i % 24 ? "" : "\n", (unsigned char)script->data[i]);
    fprintf(f, "};\nconst struct migration schema_now = {%d, \"schema\", (const char *)sql};\n",
            migrations_last);
    return fclose(f) == 0;
}

int main(int argc, char **argv)
{
    struct buf script = BUF_INIT;

    if (argc != 2)
        return 64;
    if (sqlite3_open(":memory:", &db) != SQLITE_OK)
        fail_at("a database in memory");
    for (int i = 0; !failed && i < migrations_last; i++)
        if (sqlite3_exec(db, migrations[i].sql, NULL, NULL, NULL) != SQLITE_OK)
            fail_at(migrations[i].name);
    if (!failed)
        put_schema(&script);
    sqlite3_close(db);
    if (!failed && !write_source(argv[1], &script)) {
        perror(argv[1]);
        failed = true;
    }
    buf_free(&script);
    return failed ? 1 : 0;
}
