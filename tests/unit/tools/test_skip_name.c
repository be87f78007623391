/* Which names are skipped: trash, what systems keep, half files, what is hidden. */
#include "tests/common/test.h"

#include "tools/enqueue/found/skip_name.h"

struct row {
    const char *name;
    bool directory;
    enum skip_reason reason;
};

static const struct row rows[] = {
    {"$RECYCLE.BIN", true, SKIP_TRASH},
    {"$Recycle.Bin", true, SKIP_TRASH},
    {"RECYCLER", true, SKIP_TRASH},
    {"RECYCLED", true, SKIP_TRASH},
    {"#recycle", true, SKIP_TRASH},
    {"@Recycle", true, SKIP_TRASH},
    {".Trash", true, SKIP_TRASH},
    {".Trash-1000", true, SKIP_TRASH},
    {".Trashes", true, SKIP_TRASH},
    {"lost+found", true, SKIP_TRASH},
    {"home/.local/share/Trash", true, SKIP_TRASH},
    {"share/Trash", true, SKIP_TRASH},
    {".nfs0000000000a3f1c200000017", false, SKIP_TRASH},
    {".fuse_hidden0000a1b200000001", false, SKIP_TRASH},
    {".trashed-1700000000-talk.m4a", false, SKIP_TRASH},
    {".AppleDouble", true, SKIP_SYSTEM},
    {"__MACOSX", true, SKIP_SYSTEM},
    {"@eaDir", true, SKIP_SYSTEM},
    {"#snapshot", true, SKIP_SYSTEM},
    {".snapshots", true, SKIP_SYSTEM},
    {"System Volume Information", true, SKIP_SYSTEM},
    {"._side-b.mp3", false, SKIP_SYSTEM},
    {"side-b.mp3@SynoEAStream", false, SKIP_SYSTEM},
    {".talk.wav.Zk3x9q", false, SKIP_UNFINISHED},
    {"talk.wav.part", false, SKIP_UNFINISHED},
    {"TALK.TMP", false, SKIP_UNFINISHED},
    {"talk.crdownload", false, SKIP_UNFINISHED},
    {"talk.mp3.download", true, SKIP_UNFINISHED},
    {"talk.mp4.part-Frag17", false, SKIP_UNFINISHED},
    {"talk.mp3.!ut", false, SKIP_UNFINISHED},
    {"talk.wav~", false, SKIP_UNFINISHED},
    {".in.talk.wav.", false, SKIP_UNFINISHED},
    {".part", false, SKIP_UNFINISHED},
    {".rsync-partial", true, SKIP_UNFINISHED},
    {".note.wav", false, SKIP_HIDDEN},
    {".git", true, SKIP_HIDDEN},
    {".Zk3x9q", false, SKIP_HIDDEN},
    {"...", true, SKIP_HIDDEN},
    /* Whole, and nobody's trash. */
    {"talk.wav", false, SKIP_NONE},
    {"part", false, SKIP_NONE},
    {"a.part.wav", false, SKIP_NONE},
    {"talk.wav.Zk3x9q", false, SKIP_NONE},
    {"", false, SKIP_NONE},
    {"Trash", true, SKIP_NONE},
    {"share/Trash", false, SKIP_NONE},
    {"Recycled", true, SKIP_NONE},
    {"lost+found", false, SKIP_NONE},
    {"#recycle.wav", false, SKIP_NONE},
    {"part.1", true, SKIP_NONE},
    {"talks.part", true, SKIP_NONE},
    {"a/.hidden/b.wav", false, SKIP_NONE}, /* of the last name alone */
};

TEST(names)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (skip_name(rows[i].name, rows[i].directory) != rows[i].reason)
            fail_msg("'%s' was judged '%s'", rows[i].name,
                     skip_word(skip_name(rows[i].name, rows[i].directory)));
}

TEST(members)
{
    assert_int_equal(skip_member("__MACOSX/a/._b.wav", false), SKIP_SYSTEM);
    assert_int_equal(skip_member("disk/$RECYCLE.BIN/S-1-5/$R1.wav", true), SKIP_TRASH);
    assert_int_equal(skip_member("in.zip//.Trashes/b.wav", true), SKIP_TRASH);
    assert_int_equal(skip_member("a/.b/c.wav", false), SKIP_HIDDEN);
    assert_int_equal(skip_member("a/.b/c.wav", true), SKIP_NONE);
    assert_int_equal(skip_member("a/.b/c.wav.part", true), SKIP_UNFINISHED);
    assert_int_equal(skip_member("./a/../b//c.wav", false), SKIP_NONE);
    assert_int_equal(skip_member("a.part/b.wav", false), SKIP_NONE);
    assert_int_equal(skip_member("", false), SKIP_NONE);
}

TEST_MAIN(NULL, NULL)
