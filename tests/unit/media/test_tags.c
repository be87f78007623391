/* What containers say of their recordings: WAV files made byte by byte, other ones by the ffmpeg
 * tool; and what hostile ones say. */
#include <unistd.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "tests/common/nomem.h"
#include "tests/unit/media/media_util.h"
#include "workers/media/container_tags.h"

/* ---- a WAV file of chunks */

static void put_chunk(struct buf *b, const char *name, const void *data, size_t n)
{
    buf_put(b, name, 4);
    buf_put_u32(b, (uint32_t)n);
    buf_put(b, data, n);
    if (n & 1)
        buf_put_u8(b, 0);
}

static void put_sound(struct buf *b)
{
    static uint8_t sound[16000];

    put_chunk(b, "data", sound, sizeof(sound));
}

static void put_head(struct buf *b)
{
    static const uint8_t pcm[] = {1, 0, 1, 0, 0x80, 0x3e, 0, 0, 0, 0x7d, 0, 0, 2, 0, 16, 0};

    buf_put(b, "RIFF\0\0\0\0WAVE", 12);
    put_chunk(b, "fmt ", pcm, sizeof(pcm));
}

static void save(struct buf *b, const char *path)
{
    FILE *f = fopen(path, "wb");
    uint32_t size = (uint32_t)b->len - 8;

    assert_false(b->failed);
    memcpy(b->data + 4, &size, 4);
    assert_non_null(f);
    assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
    fclose(f);
    buf_free(b);
}

static void put_bext(struct buf *b, const char *description)
{
    char bext[602 + 20] = "";

    utf8_copy(bext, 256, description);
    memcpy(bext + 256, "Radio Norte", 11);
    memcpy(bext + 288, "RN-1987-0042", 12);
    memcpy(bext + 320, "1987-05-17", 10);
    memcpy(bext + 330, "21:30:00", 8);
    memcpy(bext + 602, "A=ANALOGUE,M=mono\r\n", 19);
    put_chunk(b, "bext", bext, sizeof(bext));
}

static void put_info(struct buf *b)
{
    struct buf list = BUF_INIT;

    buf_put(&list, "INFO", 4);
    put_chunk(&list, "INAM", "El puerto", 10);
    put_chunk(&list, "IART", "Ana Ruiz", 9);
    put_chunk(&list, "ICRD", "1988", 5);
    put_chunk(b, "LIST", list.data, list.len);
    buf_free(&list);
}

static const char ixml[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<BWFXML>\n<PROJECT>Puertos &amp; mares</PROJECT>\n"
    "<!-- <TAPE>not this</TAPE> --><SCENE>12</SCENE>\n<TAKE/>\n<SPEED><NOTE>slow</NOTE></SPEED>"
    "<TRACK_LIST><TRACK><NAME>left</NAME></TRACK><TRACK><NAME>right</NAME></TRACK></TRACK_LIST>"
    "</BWFXML>\n\0\0\0\0";

static void wav_has_its_tags(void **state)
{
    struct buf b = BUF_INIT;
    struct outcome o;

    (void)state;
    put_head(&b);
    put_bext(&b, "On the quay");
    put_info(&b);
    put_sound(&b);
    put_chunk(&b, "iXML", ixml, sizeof(ixml));
    save(&b, "a.wav");
    o = decode_path("a.wav", &(struct ask){.want_hash = true});
    assert_int_equal(o.rc, 0);
    assert_string_equal(o.damage, "");
    assert_string_equal(tag_of(&o, "bext", "description"), "On the quay");
    assert_string_equal(tag_of(&o, "bext", "originator"), "Radio Norte");
    assert_string_equal(tag_of(&o, "bext", "originator_reference"), "RN-1987-0042");
    assert_string_equal(tag_of(&o, "bext", "origination_date"), "1987-05-17");
    assert_string_equal(tag_of(&o, "bext", "coding_history"), "A=ANALOGUE,M=mono");
    assert_string_equal(tag_of(&o, "container", "title"), "El puerto");
    assert_string_equal(tag_of(&o, "container", "artist"), "Ana Ruiz");
    assert_string_equal(tag_of(&o, "container", "date"), "1988");
    assert_null(tag_of(&o, "container", "comment")); /* the description again */
    assert_null(tag_of(&o, "container", "encoded_by"));
    assert_string_equal(tag_of(&o, "ixml", "PROJECT"), "Puertos & mares");
    assert_string_equal(tag_of(&o, "ixml", "SCENE"), "12");
    assert_string_equal(tag_of(&o, "ixml", "SPEED/NOTE"), "slow");
    assert_string_equal(tag_of(&o, "ixml", "TRACK_LIST/TRACK/NAME"), "left");
    assert_null(tag_of(&o, "ixml", "TAPE"));
    assert_null(tag_of(&o, "ixml", "TAKE"));
    outcome_free(&o);
}

/* In an archive only what comes before the sound is looked for: unpacking goes forward. */
static void member_has_its_tags(void **state)
{
    struct buf b = BUF_INIT;
    struct outcome o;

    (void)state;
    need_tools("tar gzip");
    put_head(&b);
    put_chunk(&b, "iXML", ixml, sizeof(ixml));
    put_sound(&b);
    save(&b, "before.wav");
    put_head(&b);
    put_info(&b);
    put_sound(&b);
    put_chunk(&b, "iXML", ixml, sizeof(ixml));
    save(&b, "behind.wav");
    sh("tar czf a.tgz before.wav behind.wav");
    o = decode_path("a.tgz", &(struct ask){.member = "before.wav"});
    assert_int_equal(o.rc, 0);
    assert_string_equal(tag_of(&o, "ixml", "SCENE"), "12");
    outcome_free(&o);
    o = decode_path("a.tgz", &(struct ask){.member = "behind.wav"});
    assert_int_equal(o.rc, 0);
    assert_null(tag_of(&o, "ixml", "SCENE"));
    assert_string_equal(tag_of(&o, "container", "title"), "El puerto");
    outcome_free(&o);
}

static void other_containers_have_theirs(void **state)
{
    static const char *const names[] = {"t.mp3", "t.m4a", "t.mka", "t.ogg", "t.flac"};
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=1 -metadata title='El puerto' "
           "-metadata artist='Ana Ruiz' -metadata date=2003-05-17 -metadata comment='de noche' %s",
           names[i]);
        o = decode_path(names[i], NULL);
        for (uint32_t k = 0; k < o.info.tag_count; k++)
            assert_true(strcmp(o.info.tags[k].key, "major_brand") != 0);
        for (int k = 0; k < 2 && !tag_of(&o, k ? "stream" : "container", "artist"); k++)
            assert_int_equal(k, 0);
        const char *source = tag_of(&o, "container", "artist") ? "container" : "stream";
        assert_string_equal(tag_of(&o, source, "artist"), "Ana Ruiz");
        assert_string_equal(tag_of(&o, source, "title"), "El puerto");
        outcome_free(&o);
    }
}

static void chapters_are_told(void **state)
{
    FILE *f = fopen("chapters.txt", "w");
    uint32_t count = 0;
    struct outcome o;

    (void)state;
    need_tools("ffmpeg");
    assert_non_null(f);
    fputs(";FFMETADATA1\n[CHAPTER]\nTIMEBASE=1/1000\nSTART=0\nEND=700\ntitle=Saludo\n"
          "[CHAPTER]\nTIMEBASE=1/1000\nSTART=700\nEND=2000\ntitle=El mercado\n",
          f);
    fclose(f);
    sh("ffmpeg -v error -nostdin -y -f lavfi -i sine=d=2 -i chapters.txt -map_metadata 1 "
       "-map_chapters 1 c.mka");
    o = decode_path("c.mka", NULL);
    assert_int_equal(o.rc, 0);
    for (uint32_t i = 0; i < o.info.tag_count; i++) {
        const struct result_tag *t = &o.info.tags[i];

        if (strcmp(t->source, "chapter") != 0)
            continue;
        assert_string_equal(t->value, count == 0 ? "Saludo" : "El mercado");
        assert_int_equal(t->start_ms, count == 0 ? 0 : 700);
        assert_int_equal(t->end_ms, count == 0 ? 700 : 2000);
        count++;
    }
    assert_int_equal(count, 2);
    outcome_free(&o);
}

/* ---- hostile ones */

static void a_hostile_chunk_is_passed_over(void **state)
{
    static const uint32_t sizes[] = {0, 1, 0x7fffffff, UINT32_MAX - 1, UINT32_MAX};

    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf b = BUF_INIT;
        struct outcome o;

        put_head(&b);
        put_sound(&b);
        buf_put(&b, "iXML", 4);
        buf_put_u32(&b, sizes[i]);
        buf_put(&b, "<A><B>x", 7);
        save(&b, "h.wav");
        o = decode_path("h.wav", NULL);
        assert_int_equal(o.rc, 0);
        assert_int_equal(o.samples, 8000);
        assert_null(tag_of(&o, "ixml", "B"));
        outcome_free(&o);
    }
}

static void values_are_bounded_and_clean(void **state)
{
    const size_t most = RESULT_TAG_VALUE_MAX;
    char *wide = malloc(3 * most);
    struct tag_list l = {0};

    (void)state;
    assert_non_null(wide);
    for (size_t i = 0; i < most; i++)
        memcpy(wide + 3 * i, "\xe2\x82\xac", 3);
    wide[3 * most - 1] = '\0';
    tag_list_put(&l, "container", "long", wide);
    assert_int_equal(strlen(l.list[0].value), most / 3 * 3);
    assert_true(utf8_valid(l.list[0].value, strlen(l.list[0].value)));
    tag_list_put(&l, "container", "bad",
                 "a\xff\x1b[2Jb\xc2\x9b"
                 "c\r\nd");
    assert_string_equal(l.list[1].value, "a\xef\xbf\xbd [2Jb  c \nd");
    tag_list_put(&l, "container", "blank", " \x01\t\n");
    tag_list_put(&l, "container", "", "x");
    assert_int_equal(l.count, 2);
    tag_list_put(&l, "container", "a\nb", " x ");
    assert_string_equal(l.list[2].key, "a b");
    assert_string_equal(l.list[2].value, "x");
    tag_list_chapter(&l, INT64_MIN, INT64_MAX, NULL);
    assert_true(l.list[3].start_ms == 0 && l.list[3].end_ms == RESULT_TAG_MS_MAX);
    tag_list_chapter(&l, 5000, 10, "ends before it begins");
    assert_true(l.list[4].start_ms == 5000 && l.list[4].end_ms == 5000);
    for (unsigned i = 0; i < 2 * RESULT_TAGS_MAX; i++)
        tag_list_put(&l, "container", "k", wide);
    assert_true(l.bytes <= TAGS_BYTES && l.count < RESULT_TAGS_MAX);
    for (unsigned i = 0; i < 2 * RESULT_TAGS_MAX; i++)
        tag_list_put(&l, "container", "k", "v");
    assert_true(l.bytes <= TAGS_BYTES && l.count == RESULT_TAGS_MAX && !l.failed);
    tag_list_free(&l);
    free(wide);
}

static int put_some(void *arg, struct err *err)
{
    struct tag_list l = {0};

    (void)arg;
    for (int i = 0; i < 20; i++)
        tag_list_put(&l, "container", "key", "value");
    tag_list_chapter(&l, 0, 9, "Harbour");
    if (l.failed)
        err_set(err, ERR_NOMEM, "tags");
    else
        assert_int_equal(l.count, 21);
    tag_list_free(&l);
    return err->code;
}

static void memory_runs_out(void **state)
{
    (void)state;
    assert_true(nomem_each(put_some, NULL) > 60);
}

static void note(void *arg, const char *key, const char *value)
{
    buf_printf(arg, "%s=%s;", key, value);
}

static void ixml_is_read_as_far_as_it_goes(void **state)
{
    static const char *const table[][2] = {
        {"", ""},
        {"no markup at all", ""},
        {"<BWFXML><A>1</A><B>&lt;2&#62;&unknown;&</B></BWFXML><C>3</C>", "A=1;B=<2>&unknown;&;"},
        {"<BWFXML><A b=\"c\">1</A >", "A=1;"},
        {"<BWFXML><A>1<B>2</B>3</A></BWFXML>", "A/B=2;"},
        {"<BWFXML><A>1</B><C>2</C></BWFXML>", ""},
        {"<BWFXML><A>1</A>< ><C>2</C></BWFXML>", "A=1;"},
        {"<BWFXML><A>1</A><C>2</C", "A=1;"},
        {"</A><B>1</B>", ""},
        {"<BWFXML><A/><B>\n1\n</B><!-- > --><C>2</C></BWFXML>", "B=\n1\n;C=2;"},
        {"<1><2><3><4><5><6><7><8><9>deep</9></8></7></6></5></4></3></2></1>", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        struct buf said = BUF_INIT;

        ixml_scan(table[i][0], note, &said);
        assert_string_equal(said.len ? buf_cstr(&said) : "", table[i][1]);
        buf_free(&said);
    }
}

/* A name of a thousand letters, a million elements that are never closed, a value that is long. */
static void ixml_is_bounded(void **state)
{
    const size_t n = 3000000;
    char *text = malloc(n + 1);
    struct buf said = BUF_INIT;

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < n; i += 3)
        memcpy(text + i, "<a>", 3);
    text[n] = '\0';
    ixml_scan(text, note, &said);
    memset(text, 'a', n);
    memcpy(text, "<a><", 4);
    text[2000] = '>';
    ixml_scan(text, note, &said);
    assert_int_equal(said.len, 0);
    memset(text, '&', n);
    memcpy(text, "<a><b>", 6);
    memcpy(text + n - 8, "</b></a>", 8);
    ixml_scan(text, note, &said);
    assert_in_range(said.len, 1000, 20000);
    buf_free(&said);
    free(text);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(wav_has_its_tags),
    cmocka_unit_test(member_has_its_tags),
    cmocka_unit_test(other_containers_have_theirs),
    cmocka_unit_test(chapters_are_told),
    cmocka_unit_test(a_hostile_chunk_is_passed_over),
    cmocka_unit_test(values_are_bounded_and_clean),
    cmocka_unit_test(memory_runs_out),
    cmocka_unit_test(ixml_is_read_as_far_as_it_goes),
    cmocka_unit_test(ixml_is_bounded),
};

MEDIA_TEST_MAIN(tests)
