#include "store/search/word_forms.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* ---- British and American spellings of English words */

/* Stems of words in -our and -or, and of their derivatives: harbour, harbours, harboured;
 * favourite; neighbourhood. */
static const char *const our[] = {
    "arb",    "ard",    "arm",  "behavi",    "cand",   "clam", "col",  "demean", "discol",
    "disfav", "dishon", "enam", "endeav",    "fav",    "ferv", "flav", "glam",   "harb",
    "hon",    "hum",    "lab",  "misdemean", "neighb", "od",   "parl", "ranc",   "rig",
    "rum",    "savi",   "sav",  "splend",    "succ",   "tum",  "val",  "vap",    "vig",
};

/* Stems of words in -re and -er: centre, centres, centred, centring. */
static const char *const re[] = {
    "calib",  "cent",  "centilit", "centimet", "epicent", "fib",   "goit",       "kilomet",   "lit",
    "lust",   "meag",  "millilit", "millimet", "met",     "mit",   "och",        "reconnoit", "sab",
    "salpet", "scept", "sepulch",  "somb",     "spect",   "theat", "amphitheat",
};

/* Both ways, at the beginning of a word, with what follows: aeroplanes and airplanes. */
static const struct {
    const char *british, *american;
} beginnings[] = {
    {"aeroplane", "airplane"},
    {"aesthet", "esthet"},
    {"aluminium", "aluminum"},
    {"anaem", "anem"},
    {"anaesth", "anesth"},
    {"analyse", "analyze"},
    {"analysi", "analyzi"},
    {"archaeolog", "archeolog"},
    {"artefact", "artifact"},
    {"axe", "ax"},
    {"behove", "behoove"},
    {"caesarean", "cesarean"},
    {"catalyse", "catalyze"},
    {"catalysi", "catalyzi"},
    {"cosy", "cozy"},
    {"cosi", "cozi"},
    {"defence", "defense"},
    {"diarrhoea", "diarrhea"},
    {"doughnut", "donut"},
    {"draught", "draft"},
    {"encyclopaed", "encycloped"},
    {"enquir", "inquir"},
    {"enrolment", "enrollment"},
    {"faec", "fec"},
    {"foetu", "fetu"},
    {"foeta", "feta"},
    {"fulfilment", "fulfillment"},
    {"gaol", "jail"},
    {"grey", "gray"},
    {"gynaecolog", "gynecolog"},
    {"haemo", "hemo"},
    {"haema", "hema"},
    {"homoeopath", "homeopath"},
    {"instalment", "installment"},
    {"jewellery", "jewelry"},
    {"jeweller", "jeweler"},
    {"judgement", "judgment"},
    {"kerb", "curb"},
    {"leukaemi", "leukemi"},
    {"licence", "license"},
    {"likeable", "likable"},
    {"manoeuvre", "maneuver"},
    {"manoeuvring", "maneuvering"},
    {"manoeuvred", "maneuvered"},
    {"maths", "math"},
    {"mediaeval", "medieval"},
    {"mould", "mold"},
    {"moult", "molt"},
    {"moustache", "mustache"},
    {"mum", "mom"},
    {"oesophag", "esophag"},
    {"oestrogen", "estrogen"},
    {"offence", "offense"},
    {"orthopaed", "orthoped"},
    {"paediatric", "pediatric"},
    {"paralyse", "paralyze"},
    {"paralysi", "paralyzi"},
    {"plough", "plow"},
    {"practise", "practice"},
    {"pretence", "pretense"},
    {"programme", "program"},
    {"pyjama", "pajama"},
    {"sceptic", "skeptic"},
    {"skilful", "skillful"},
    {"smoulder", "smolder"},
    {"speciality", "specialty"},
    {"specialities", "specialties"},
    {"sulphur", "sulfur"},
    {"tranquillity", "tranquility"},
    {"tyre", "tire"},
    {"whisky", "whiskey"},
    {"wilful", "willful"},
    {"woollen", "woolen"},
    {"yoghurt", "yogurt"},
    {"acknowledgement", "acknowledgment"},
    {"ageing", "aging"},
    {"enrol", "enroll"},
    {"fulfil", "fulfill"},
    {"distil", "distill"},
    {"instil", "instill"},
};

/* Whole words. */
static const struct {
    const char *british, *american;
} wholes[] = {
    {"burnt", "burned"},       {"dreamt", "dreamed"},       {"leant", "leaned"},
    {"leapt", "leaped"},       {"learnt", "learned"},       {"smelt", "smelled"},
    {"spelt", "spelled"},      {"spoilt", "spoiled"},       {"spilt", "spilled"},
    {"towards", "toward"},     {"afterwards", "afterward"}, {"forwards", "forward"},
    {"backwards", "backward"}, {"upwards", "upward"},       {"downwards", "downward"},
    {"amongst", "among"},      {"whilst", "while"},
};

/* Behind at least three letters, whatever these are. */
static const struct {
    const char *british, *american;
} endings[] = {
    {"ise", "ize"},   {"ises", "izes"},   {"ised", "ized"},       {"ising", "izing"},
    {"iser", "izer"}, {"isers", "izers"}, {"isation", "ization"}, {"isations", "izations"},
    {"ogue", "og"},   {"ogues", "ogs"},   {"ogued", "oged"},
};

/* Endings that double a final l in words of two or more syllables: travelled, traveled. In words of
 * one syllable the two spellings are different words: filling, filing. */
static const char *const doubled[] = {"ed", "ing", "ings", "er", "ers", "or", "ors"};

struct giving {
    void (*give)(void *arg, const char *other);
    void *arg;
};

/* The first n letters of the word, and then the others. */
static void give_swapped(const struct giving *g, const char *word, size_t n, const char *a,
                         const char *b)
{
    char other[SPELLING_BYTES];
    int len = snprintf(other, sizeof(other), "%.*s%s%s", (int)n, word, a, b);

    if (len > 0 && (size_t)len < sizeof(other))
        g->give(g->arg, other);
}

static bool begins(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static void give_our(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(our) / sizeof(our[0]); i++) {
        const size_t n = strlen(our[i]);

        if (!begins(word, our[i]))
            continue;
        if (begins(word + n, "our"))
            give_swapped(g, word, n, "or", word + n + 3);
        else if (begins(word + n, "or"))
            give_swapped(g, word, n, "our", word + n + 2);
    }
}

static void give_re(const struct giving *g, const char *word)
{
    static const char *const ends[][2] = {
        {"re", "er"}, {"res", "ers"}, {"red", "ered"}, {"ring", "ering"}};

    for (size_t i = 0; i < sizeof(re) / sizeof(re[0]); i++) {
        const size_t n = strlen(re[i]);

        if (!begins(word, re[i]))
            continue;
        for (size_t k = 0; k < sizeof(ends) / sizeof(ends[0]); k++)
            for (int way = 0; way < 2; way++)
                if (strcmp(word + n, ends[k][way]) == 0)
                    give_swapped(g, word, n, ends[k][!way], "");
    }
}

static void give_beginnings(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(beginnings) / sizeof(beginnings[0]); i++) {
        const char *ways[] = {beginnings[i].british, beginnings[i].american};

        for (int way = 0; way < 2; way++)
            if (begins(word, ways[way]))
                give_swapped(g, "", 0, ways[!way], word + strlen(ways[way]));
    }
}

static void give_wholes(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(wholes) / sizeof(wholes[0]); i++) {
        if (strcmp(word, wholes[i].british) == 0)
            give_swapped(g, "", 0, wholes[i].american, "");
        if (strcmp(word, wholes[i].american) == 0)
            give_swapped(g, "", 0, wholes[i].british, "");
    }
}

/* The position of the ending if at least `before` letters come in front of it, else 0. */
static size_t find_ending(const char *word, const char *ending, size_t before)
{
    const size_t n = strlen(word), e = strlen(ending);

    return n >= before + e && strcmp(word + n - e, ending) == 0 ? n - e : 0;
}

static void give_endings(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        const char *ways[] = {endings[i].british, endings[i].american};

        for (int way = 0; way < 2; way++) {
            const size_t at = find_ending(word, ways[way], 3);

            if (at > 0)
                give_swapped(g, word, at, ways[!way], "");
        }
    }
}

static unsigned count_syllables(const char *word, size_t n)
{
    unsigned count = 0;
    bool in = false;

    for (size_t i = 0; i < n; i++) {
        const bool is = strchr("aeiouy", word[i]) != NULL;

        count += is && !in;
        in = is;
    }
    return count;
}

static void give_doubled(const struct giving *g, const char *word)
{
    for (size_t i = 0; i < sizeof(doubled) / sizeof(doubled[0]); i++) {
        const size_t at = find_ending(word, doubled[i], 4);

        if (at == 0 || word[at - 1] != 'l' || count_syllables(word, at) < 2)
            continue;
        if (word[at - 2] == 'l')
            give_swapped(g, word, at - 1, doubled[i], "");
        else if (strchr("aeiou", word[at - 2]))
            give_swapped(g, word, at, "l", doubled[i]);
    }
}

static void spelling_each(const char *word, void (*fn)(void *arg, const char *other), void *arg)
{
    const struct giving g = {fn, arg};

    give_our(&g, word);
    give_re(&g, word);
    give_beginnings(&g, word);
    give_wholes(&g, word);
    give_endings(&g, word);
    give_doubled(&g, word);
}

/* ---- other forms of an English word */

/* Words that have no other form here, and are none of another's: nearly every segment has one. */
static const char *const common[] = {
    "about", "across", "after", "also",  "always", "and",   "any",     "are",   "because",
    "been",  "being",  "but",   "can",   "could",  "did",   "does",    "doing", "each",
    "even",  "ever",   "every", "for",   "from",   "had",   "has",     "have",  "having",
    "her",   "hers",   "here",  "him",   "his",    "how",   "into",    "its",   "just",
    "less",  "more",   "most",  "must",  "nor",    "not",   "now",     "one",   "only",
    "other", "our",    "ours",  "out",   "over",   "per",   "perhaps", "she",   "should",
    "some",  "such",   "than",  "that",  "the",    "their", "them",    "then",  "there",
    "these", "they",   "thing", "this",  "those",  "thus",  "unless",  "very",  "was",
    "were",  "what",   "when",  "where", "which",  "while", "who",     "whose", "why",
    "will",  "with",   "would", "you",   "your",   "yours",
};
/* Words that no ending has made, although they look so. */
static const char *const plain[] = {
    "athletics",   "during", "economics", "evening",  "goods",  "hundred", "lens",
    "mathematics", "news",   "physics",   "politics", "series", "species", "united",
};

static bool is_among(const char *const *list, size_t n, const char *word)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], word) == 0)
            return true;
    return false;
}
#define IS_COMMON(word) is_among(common, sizeof(common) / sizeof(common[0]), word)
#define IS_PLAIN(word) is_among(plain, sizeof(plain) / sizeof(plain[0]), word)

static bool is_vowel(char c) { return c && strchr("aeiou", c); }

/* ------------------------------------------------------------------------------------- endings */

/* Forms of one word in its plain form. */
struct made {
    char list[8][SPELLING_BYTES];
    size_t count;
};

/* The first n letters, and behind them the last one once more if `twice`, and the ending. */
static void append_form(struct made *m, const char *word, size_t n, bool twice, const char *ending)
{
    char *to = m->list[m->count];
    int len = snprintf(to, SPELLING_BYTES, "%.*s%.*s%s", (int)n, word, (int)twice, word + n - twice,
                       ending);

    m->count += len > 0 && len < SPELLING_BYTES;
}

static unsigned vowel_groups(const char *word, size_t n)
{
    unsigned count = 0;

    for (size_t i = 0; i < n; i++)
        count += (is_vowel(word[i]) || (word[i] == 'y' && i > 0)) &&
                 !(i > 0 && (is_vowel(word[i - 1]) || word[i - 1] == 'y'));
    return count;
}

/* Does its last letter double before -ed and -ing? Never, always (stop), or in some (travel). */
enum doubling { NEVER, ALWAYS, PERHAPS };
static enum doubling find_doubling(const char *word, size_t n)
{
    if (is_vowel(word[n - 1]) || strchr("hwxy", word[n - 1]) || !is_vowel(word[n - 2]) ||
        is_vowel(word[n - 3]))
        return NEVER;
    return vowel_groups(word, n) == 1 ? ALWAYS : PERHAPS;
}

static bool ends_in(const char *word, size_t n, const char *ending)
{
    const size_t e = strlen(ending);

    return n >= e && memcmp(word + n - e, ending, e) == 0;
}

static bool ends_in_sibilant(const char *word, size_t n)
{
    static const char *const all[] = {"s", "x", "z", "ch", "sh", "o"};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (ends_in(word, n, all[i]))
            return true;
    return false;
}

/* word: at least three letters. */
static void inflect_word(const char *word, struct made *m)
{
    const size_t n = strlen(word);
    const bool y = word[n - 1] == 'y' && !is_vowel(word[n - 2]);
    const enum doubling d = find_doubling(word, n);

    m->count = 0;
    if (ends_in_sibilant(word, n))
        append_form(m, word, n, false, "es");
    if (y)
        append_form(m, word, n - 1, false, "ies");
    else if (!ends_in_sibilant(word, n) || word[n - 1] == 'o')
        append_form(m, word, n, false, "s");
    if (y)
        append_form(m, word, n - 1, false, "ied");
    else if (d != ALWAYS && !(ends_in(word, n, "ee") && vowel_groups(word, n) == 1)) /* see, seed */
        append_form(m, word, n, false, word[n - 1] == 'e' ? "d" : "ed");
    if (d != ALWAYS)
        append_form(m, word, n - (word[n - 1] == 'e' && word[n - 2] != 'e'), false, "ing");
    if (d != NEVER) {
        append_form(m, word, n, true, "ed");
        append_form(m, word, n, true, "ing");
    }
}

struct ending {
    const char *ending, *plain;
    bool doubled;
};

/* Finds the plain form of a word with this ending. False if the word lacks the ending, or if the
 * plain form gives another word with it. */
static bool base_of(const char *word, const struct ending *e, char base[SPELLING_BYTES])
{
    const size_t n = strlen(word), cut = strlen(e->ending) + e->doubled;
    struct made forms;

    if (n < cut + 2 || !ends_in(word, n, e->ending) ||
        (e->doubled && word[n - cut] != word[n - cut - 1]))
        return false;
    snprintf(base, SPELLING_BYTES, "%.*s%s", (int)(n - cut), word, e->plain);
    if (strlen(base) < 3 || vowel_groups(base, strlen(base)) == 0 || IS_COMMON(base) ||
        (e->ending[0] == 'e' && ends_in(word, n, "ied") && base[strlen(base) - 1] == 'i'))
        return false;
    inflect_word(base, &forms);
    for (size_t i = 0; i < forms.count; i++)
        if (strcmp(forms.list[i], word) == 0)
            return true;
    return false;
}

/* The words that this one may be a form of. Returns how many. */
static size_t find_base_forms(const char *word, void (*give)(void *arg, const char *base),
                              void *arg)
{
    static const struct ending table[] = {
        {"s", "", false},    {"es", "", false},   {"ies", "y", false}, {"ed", "", false},
        {"ed", "e", false},  {"ied", "y", false}, {"ed", "", true},    {"ing", "", false},
        {"ing", "e", false}, {"ing", "", true}};
    const size_t n = strlen(word);
    char base[SPELLING_BYTES];
    size_t count = 0;

    if (IS_PLAIN(word) || ends_in(word, n, "ss") || ends_in(word, n, "us") ||
        ends_in(word, n, "is"))
        return 0;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (base_of(word, &table[i], base)) {
            count++;
            if (give)
                give(arg, base);
        }
    return count;
}

/* --------------------------------------------------------------------------------- all together */

struct gathering {
    const char *word;
    struct word_forms *forms;
};

static void add_unique_form(void *arg, const char *form)
{
    struct gathering *g = arg;
    struct word_forms *f = g->forms;

    if (f->count == WORD_FORMS_MOST || strcmp(form, g->word) == 0 || IS_COMMON(form))
        return;
    for (size_t i = 0; i < f->count; i++)
        if (strcmp(f->list[i], form) == 0)
            return;
    snprintf(f->list[f->count++], SPELLING_BYTES, "%s", form);
}

/* A base that is itself a form gets a plural and no more: buildings, canvases. */
static void gather_family(void *arg, const char *base)
{
    const bool form = find_base_forms(base, NULL, NULL) > 0;
    const size_t n = strlen(base);
    struct made forms;

    add_unique_form(arg, base);
    if (form && ends_in(base, n, "ed"))
        return;
    inflect_word(base, &forms);
    for (size_t i = 0; i < forms.count; i++)
        if (!IS_PLAIN(forms.list[i]) &&
            (!form || ends_in(forms.list[i], strlen(forms.list[i]), "s")))
            add_unique_form(arg, forms.list[i]);
}

void word_forms(const char *word, struct word_forms *ret)
{
    const size_t n = strlen(word);
    struct gathering g = {word, ret};

    ret->count = 0;
    if (n < 3 || n >= SPELLING_BYTES || strspn(word, "abcdefghijklmnopqrstuvwxyz") < n ||
        vowel_groups(word, n) == 0 || IS_COMMON(word))
        return;
    spelling_each(word, add_unique_form, &g);
    gather_family(&g, word);
    find_base_forms(word, gather_family, &g);
    /* The spellings' own families, and these forms' own spellings. */
    for (size_t i = 0, end = ret->count; i < end; i++) {
        char form[SPELLING_BYTES];

        memcpy(form, ret->list[i], sizeof(form));
        spelling_each(form, add_unique_form, &g);
    }
}
