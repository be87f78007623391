#include "workers/text/doubtful_text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <zlib.h>

#include "workers/text/codepoints.h"

int compression_ratio(const char *text, size_t len, float *ret, struct err *err)
{
    uLongf packed = compressBound((uLong)len);
    Bytef *out;
    int rc;

    if (!len) {
        *ret = 0;
        return 0;
    }
    out = malloc(packed);
    if (!out)
        return err_set(err, ERR_NOMEM, "no memory to measure a text's repetitions");
    rc = compress(out, &packed, (const Bytef *)text, (uLong)len);
    free(out);
    if (rc != Z_OK)
        return err_set(err, ERR_NOMEM, "zlib cannot compress %zu bytes of text (%d)", len, rc);
    *ret = (float)((double)len / (double)packed);
    return 0;
}

/* ---- the same few words again and again */

#define PERIOD_MAX 400 /* code points: a sentence or two */

/* How often a unit must come: as nearly all of the text, as half of it, anywhere. */
struct bounds {
    uint32_t whole, half, anywhere;
};

static const struct bounds phrases = {3, 5, 8};    /* words with the blanks between them */
static const struct bounds syllables = {4, 6, 8};  /* three letters or more, no blank */
static const struct bounds letters = {10, 10, 16}; /* "hahaha", "mmmm" */
static const struct bounds figures = {10, 10, 16};

static const struct bounds *bounds_of(const int32_t *unit, uint32_t period)
{
    bool blank = false, letter = false;

    for (uint32_t i = 0; i < period; i++) {
        blank |= unit[i] == ' ';
        letter |= unit[i] != ' ' && codepoint_digit(unit[i]) < 0;
    }
    if (!letter)
        return &figures;
    return blank ? &phrases : period >= 3 ? &syllables : &letters;
}

/* A run of `length` code points from `start` that repeat with this period. */
static bool is_loop(const struct folded *f, uint32_t start, uint32_t length, uint32_t period)
{
    uint32_t times = length / period;
    const struct bounds *b;

    if (times < phrases.whole)
        return false;
    b = bounds_of(f->at + start, period);
    if (times >= b->anywhere)
        return true;
    if (times >= b->half && 2 * length >= f->len)
        return true;
    return times >= b->whole && 5 * length >= 4 * f->len;
}

static bool loops_with(const struct folded *f, uint32_t period)
{
    uint32_t run = 0;

    for (uint32_t i = period; i <= f->len; i++) {
        if (i < f->len && f->at[i] == f->at[i - period]) {
            run++;
            continue;
        }
        if (run && is_loop(f, i - run - period, run + period, period))
            return true;
        run = 0;
    }
    return false;
}

bool repetition_loops(const struct folded *f)
{
    for (uint32_t period = 1; period <= f->len / phrases.whole && period <= PERIOD_MAX; period++)
        if (loops_with(f, period))
            return true;
    return false;
}

/* ---- silence phrases */

#define CREDIT_MAX 80 /* code points of names behind "subtitles by" */

struct phrase {
    const char *text;
    enum { TYPICAL, COMMON, CREDIT } kind; /* CREDIT: typical, and names may follow */
};

/* Lower case and without punctuation, as folded text is; marks are left out when comparing. */
static const struct phrase table[] = {
    /* English */
    {"thank you", COMMON},
    {"thank you very much", COMMON},
    {"thank you so much", COMMON},
    {"thanks", COMMON},
    {"you", COMMON},
    {"bye", COMMON},
    {"bye bye", COMMON},
    {"okay", COMMON},
    {"ok", COMMON},
    {"oh", COMMON},
    {"so", COMMON},
    {"yeah", COMMON},
    {"hmm", COMMON},
    {"the", COMMON},
    {"the end", COMMON},
    {"good night", COMMON},
    {"see you next time", COMMON},
    {"see you later", COMMON},
    {"thanks for listening", COMMON},
    {"thank you for listening", COMMON},
    {"music", TYPICAL},
    {"music playing", TYPICAL},
    {"applause", TYPICAL},
    {"laughter", TYPICAL},
    {"silence", TYPICAL},
    {"blank audio", TYPICAL},
    {"no audio", TYPICAL},
    {"inaudible", TYPICAL},
    {"foreign", TYPICAL},
    {"thanks for watching", TYPICAL},
    {"thank you for watching", TYPICAL},
    {"thank you so much for watching", TYPICAL},
    {"thank you very much for watching", TYPICAL},
    {"thanks for watching this video", TYPICAL},
    {"thank you for watching this video", TYPICAL},
    {"thank you for watching my video", TYPICAL},
    {"and ill see you in the next video", TYPICAL},
    {"ill see you in the next video", TYPICAL},
    {"ill see you next time", TYPICAL},
    {"see you in the next video", TYPICAL},
    {"see you in the next one", TYPICAL},
    {"like and subscribe", TYPICAL},
    {"please like and subscribe", TYPICAL},
    {"dont forget to like and subscribe", TYPICAL},
    {"dont forget to subscribe", TYPICAL},
    {"please subscribe", TYPICAL},
    {"please subscribe to my channel", TYPICAL},
    {"please subscribe to our channel", TYPICAL},
    {"subscribe to my channel", TYPICAL},
    {"subscribe to the channel", TYPICAL},
    {"if you enjoyed this video please like and subscribe", TYPICAL},
    {"well be right back", TYPICAL},
    {"subtitles by", CREDIT},
    {"captions by", CREDIT},
    {"captioning by", CREDIT},
    {"closed captioning by", CREDIT},
    {"transcription by", CREDIT},
    {"transcript by", CREDIT},
    {"transcribed by", CREDIT},
    {"translated by", CREDIT},
    {"translation by", CREDIT},
    {"for more information visit www fema gov", TYPICAL},
    {"amara org", CREDIT},
    /* Spanish, Portuguese, Italian, French */
    {"gracias", COMMON},
    {"muchas gracias", COMMON},
    {"adios", COMMON},
    {"gracias por ver", TYPICAL},
    {"gracias por ver el video", TYPICAL},
    {"muchas gracias por ver el video", TYPICAL},
    {"gracias por ver este video", TYPICAL},
    {"suscribete", TYPICAL},
    {"suscribete al canal", TYPICAL},
    {"suscribanse", TYPICAL},
    {"no olvides suscribirte", TYPICAL},
    {"nos vemos en el proximo video", TYPICAL},
    {"subtitulos por", CREDIT},
    {"subtitulos realizados por", CREDIT},
    {"subtitulado por", CREDIT},
    {"obrigado", COMMON},
    {"obrigada", COMMON},
    {"tchau", COMMON},
    {"obrigado por assistir", TYPICAL},
    {"obrigada por assistir", TYPICAL},
    {"inscreva se no canal", TYPICAL},
    {"se inscreva no canal", TYPICAL},
    {"ate o proximo video", TYPICAL},
    {"legendas por", CREDIT},
    {"legendas pela", CREDIT},
    {"legenda por", CREDIT},
    {"grazie", COMMON},
    {"grazie a tutti", COMMON},
    {"grazie mille", COMMON},
    {"grazie per la visione", TYPICAL},
    {"grazie per aver guardato il video", TYPICAL},
    {"iscriviti al canale", TYPICAL},
    {"iscrivetevi al canale", TYPICAL},
    {"sottotitoli creati dalla", CREDIT},
    {"sottotitoli e revisione a cura di", CREDIT},
    {"sottotitoli a cura di", CREDIT},
    {"sottotitoli di", CREDIT},
    {"merci", COMMON},
    {"merci beaucoup", COMMON},
    {"au revoir", COMMON},
    {"merci davoir regarde", TYPICAL},
    {"merci davoir regarde cette video", TYPICAL},
    {"abonnez vous", TYPICAL},
    {"abonnez vous a la chaine", TYPICAL},
    {"noubliez pas de vous abonner", TYPICAL},
    {"sous titrage st", CREDIT},
    {"sous titrage societe radio canada", TYPICAL},
    {"sous titres par", CREDIT},
    {"sous titres realises par", CREDIT},
    /* German, Dutch, Scandinavian languages */
    {"danke", COMMON},
    {"vielen dank", COMMON},
    {"tschuss", COMMON},
    {"bis zum nachsten mal", COMMON},
    {"vielen dank furs zuschauen", TYPICAL},
    {"danke furs zuschauen", TYPICAL},
    {"vielen dank fur ihre aufmerksamkeit", COMMON},
    {"bis zum nachsten video", TYPICAL},
    {"abonniert den kanal", TYPICAL},
    {"untertitel der", CREDIT},
    {"untertitel von", CREDIT},
    {"untertitel im auftrag des", CREDIT},
    {"untertitelung des", CREDIT},
    {"untertitelung im auftrag des", CREDIT},
    {"untertitelung", TYPICAL},
    {"dank je wel", COMMON},
    {"dankjewel", COMMON},
    {"bedankt voor het kijken", TYPICAL},
    {"ondertiteld door", CREDIT},
    {"ondertiteling door", CREDIT},
    {"ondertitels ingediend door", CREDIT},
    {"tack for att ni tittade", TYPICAL},
    {"tack for att du tittade", TYPICAL},
    {"undertexter av", CREDIT},
    {"undertexter fran", CREDIT},
    {"tak fordi i sa med", TYPICAL},
    {"danske tekster af", CREDIT},
    {"teksting av", CREDIT},
    {"undertekster av", CREDIT},
    {"tekstitys", TYPICAL},
    /* Slavic languages, Turkish */
    {"dziekuje", COMMON},
    {"dziekuje bardzo", COMMON},
    {"dziekuje za ogladanie", TYPICAL},
    {"dziekuje za uwage", COMMON},
    {"napisy stworzone przez", CREDIT},
    {"napisy wykonane przez", CREDIT},
    {"dekuji", COMMON},
    {"dekuji za pozornost", COMMON},
    {"titulky vytvoril", CREDIT},
    {"спасибо", COMMON},
    {"спасибо за внимание", COMMON},
    {"пока", COMMON},
    {"спасибо за просмотр", TYPICAL},
    {"подписывайтесь на канал", TYPICAL},
    {"ставьте лайки и подписывайтесь на канал", TYPICAL},
    {"продолжение следует", TYPICAL},
    {"субтитры сделал", CREDIT},
    {"субтитры создавал", CREDIT},
    {"субтитры подготовил", CREDIT},
    {"субтитры подогнал", CREDIT},
    {"редактор субтитров", CREDIT},
    {"дякую", COMMON},
    {"дякую за перегляд", TYPICAL},
    {"дякуємо за перегляд", TYPICAL},
    {"izlediginiz icin tesekkurler", TYPICAL},
    {"izlediginiz icin tesekkur ederim", TYPICAL},
    {"altyazı", TYPICAL},
    {"altyazı mk", TYPICAL},
    {"abone olmayı unutmayın", TYPICAL},
    /* Chinese, Japanese, Korean */
    {"谢谢", COMMON},
    {"謝謝", COMMON},
    {"谢谢大家", COMMON},
    {"謝謝大家", COMMON},
    {"谢谢观看", TYPICAL},
    {"謝謝觀看", TYPICAL},
    {"感谢观看", TYPICAL},
    {"感謝觀看", TYPICAL},
    {"谢谢收看", TYPICAL},
    {"謝謝收看", TYPICAL},
    {"请订阅", TYPICAL},
    {"請訂閱", TYPICAL},
    {"请不吝点赞 订阅 转发 打赏支持明镜与点点栏目", TYPICAL},
    {"請不吝點贊 訂閱 轉發 打賞支持明鏡與點點欄目", TYPICAL},
    {"字幕by", CREDIT},
    {"字幕 by", CREDIT},
    {"字幕由", CREDIT},
    {"字幕製作", CREDIT},
    {"字幕制作", CREDIT},
    {"中文字幕", TYPICAL},
    {"中文字幕志愿者", CREDIT},
    {"中文字幕志願者", CREDIT},
    {"ありがとうございました", COMMON},
    {"ありがとうございます", COMMON},
    {"ご視聴ありがとうございました", TYPICAL},
    {"ご視聴ありがとうございます", TYPICAL},
    {"ご清聴ありがとうございました", COMMON},
    {"最後までご視聴ありがとうございました", TYPICAL},
    {"最後までご視聴いただきありがとうございました", TYPICAL},
    {"チャンネル登録お願いします", TYPICAL},
    {"チャンネル登録をお願いいたします", TYPICAL},
    {"チャンネル登録よろしくお願いします", TYPICAL},
    {"おやすみなさい", COMMON},
    {"字幕作成者", CREDIT},
    {"감사합니다", COMMON},
    {"고맙습니다", COMMON},
    {"시청해주셔서 감사합니다", TYPICAL},
    {"시청해 주셔서 감사합니다", TYPICAL},
    {"구독과 좋아요 부탁드립니다", TYPICAL},
    {"다음 영상에서 만나요", TYPICAL},
    {"한글자막 by", CREDIT},
    {"자막 제작", CREDIT},
    {"자막 제공", CREDIT},
    /* Other languages */
    {"شكرا", COMMON},
    {"شكرا للمشاهدة", TYPICAL},
    {"شكرا على المشاهدة", TYPICAL},
    {"اشتركوا في القناة", TYPICAL},
    {"ترجمة نانسي قنقر", TYPICAL},
    {"धन्यवाद", COMMON},
    {"terima kasih", COMMON},
    {"terima kasih telah menonton", TYPICAL},
    {"terima kasih sudah menonton", TYPICAL},
    {"cảm ơn", COMMON},
    {"cảm ơn các bạn đã theo dõi", TYPICAL},
    {"hãy subscribe cho kênh", CREDIT},
};

#define CJK 0x1100 /* scripts without blanks begin here, for what the table has of them */

static bool beside_cjk(const struct folded *f, uint32_t at)
{
    return at < f->len && (f->at[at] >= CJK || f->at[at - 1] >= CJK);
}

/* The phrase's end in the text if it is at `at`, else 0. It must end where a word ends; a phrase
 * like "subtitles by" may stand directly before a name in scripts without blanks. */
static uint32_t match_phrase(const struct folded *f, uint32_t at, const struct phrase *p)
{
    struct folded_reader r = {p->text, false};
    int32_t c;

    while ((c = folded_next(&r)) != 0) {
        bool last = !*r.text && !r.in_word; /* the blank behind the phrase */

        if (at < f->len && f->at[at] == c)
            at++;
        else
            return last && p->kind == CREDIT && beside_cjk(f, at) ? at : 0;
    }
    return at;
}

/* The longest phrase at `at`; NULL when there is none. */
static const struct phrase *find_longest_phrase(const struct folded *f, uint32_t at, uint32_t *end)
{
    const struct phrase *best = NULL;

    *end = at;
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        uint32_t to = match_phrase(f, at, &table[i]);

        if (to > *end) {
            *end = to;
            best = &table[i];
        }
    }
    return best;
}

enum silence_phrase silence_phrase_find(const struct folded *f)
{
    enum silence_phrase found = f->len ? SILENCE_PHRASE_COMMON : SILENCE_PHRASE_TYPICAL;

    for (uint32_t at = 0, end; at < f->len; at = end) {
        const struct phrase *p = find_longest_phrase(f, at, &end);

        if (!p)
            return SILENCE_PHRASE_NONE;
        if (p->kind != COMMON)
            found = SILENCE_PHRASE_TYPICAL;
        if (p->kind == CREDIT)
            return f->len - end <= CREDIT_MAX ? found : SILENCE_PHRASE_NONE;
    }
    return found;
}
