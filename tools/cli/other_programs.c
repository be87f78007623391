#include "tools/cli/other_programs.h"

#include <stdio.h>
#include <string.h>

#define WRITES "Transcripts are written when they are done, by `nightshift export --output=DIR`"
#define FORMAT "Transcripts are written when they are done, by `nightshift export --format=FORMAT`"
#define MODEL_FOLDER                                                         \
    "`nightshift enqueue --model=FOLDER` takes a model that lies anywhere; " \
    "`nightshift model list` says which are found by name"
#define OFFLINE "Leave it out: only `nightshift setup` and `nightshift model pull` use the network"
#define PRECISION "`nightshift run --precision=fp16` says how a device computes"
#define DEVICES "`nightshift run --devices=LIST` says which devices compute, such as cuda:0 or cpu"
#define SLOTS                                                                                   \
    "`nightshift run --slots=N` says how many windows of 30 s are in work at once; without it " \
    "that "                                                                                     \
    "is measured"
#define WINDOWS \
    "Windows have 30 s, as Whisper's models want them; another length cannot be asked for"
#define VAD "`nightshift enqueue --vad=on` looks for speech first, with Silero's model"
#define WORD_TIMES                                                                                 \
    "No such model is needed: `nightshift enqueue --word-timestamps` has the times of words from " \
    "Whisper's own"
#define REPEATS                                                                               \
    "There is no such limit here: a text that repeats itself is tried again, by `nightshift " \
    "enqueue "                                                                                \
    "--compression-ratio-threshold=X`"
#define PUNCTUATION "Nothing needs to be said: a mark of punctuation goes with its word"
#define WHOLE "There is nothing like it here: recordings are transcribed as a whole"
#define FILES "There is nothing like it here: Nightshift transcribes files, and no microphone"
#define LOG "`nightshift run --verbose` says more, and `nightshift run --quiet` less"

static const struct {
    const char *name, *says;
} others[] = {
    {"output-format", FORMAT},
    {"output-dir", WRITES},
    {"output-file", WRITES},
    {"output-txt", "`nightshift export --format=txt` writes such files"},
    {"output-srt", "`nightshift export --format=srt` writes such files"},
    {"output-vtt", "`nightshift export --format=vtt` writes such files"},
    {"output-csv", "`nightshift export --format=csv` writes such files"},
    {"output-json", "`nightshift export --format=whisper-json` writes such files"},
    {"pretty-json", "`nightshift export --format=whisper-json` writes JSON with line breaks"},
    {"highlight-words", "`nightshift export --format=vtt --words` writes a time for each word"},
    {"max-line-count", "`nightshift export --max-lines=N` says how many lines a subtitle has"},
    {"max-words-per-line", "`nightshift export --max-line-width=N` limits a line, by its columns"},
    {"max-len", "`nightshift export --max-line-width=N` limits a line, by its columns"},
    {"segment-resolution", "`nightshift export --style=readable` parts subtitles so that they can "
                           "be read; `nightshift export --style=plain` leaves segments whole"},
    {"print-colors", "`nightshift show --color=always` has speakers and doubts in colours"},
    {"print-progress", "`nightshift run --progress` shows how far it is"},
    {"log-level", LOG},
    {"model-dir", MODEL_FOLDER},
    {"model-directory", MODEL_FOLDER},
    {"cache-directory", MODEL_FOLDER},
    {"download-root", MODEL_FOLDER},
    {"local-files-only", OFFLINE},
    {"model-cache-only", OFFLINE},
    {"hf-token", "`nightshift model pull` takes the token from the variable HF_TOKEN"},
    {"compute-type", PRECISION},
    {"fp16", PRECISION},
    {"device", DEVICES},
    {"device-index", DEVICES},
    {"gpu", DEVICES},
    {"no-gpu", "`nightshift run --devices=cpu` leaves GPUs alone"},
    {"flash-attn", "Nothing needs to be said: how attention is computed is chosen for each device"},
    {"cpu-threads", "`nightshift run --threads=N` says how many threads compute for a device"},
    {"threads", "`nightshift run --threads=N` says how many threads compute for a device"},
    {"batch-size", SLOTS},
    {"batched", SLOTS},
    {"num-workers", SLOTS},
    {"processors", SLOTS},
    {"chunk-length", WINDOWS},
    {"chunk-size", WINDOWS},
    {"vad-filter", VAD},
    {"vad-method", VAD},
    {"vad-onset", "`nightshift enqueue --vad-threshold=P` is its name here"},
    {"vad-offset", "`nightshift enqueue --vad-neg-threshold=P` is its name here"},
    {"vad-max-speech-duration-s", "There is no such limit here"},
    {"temperature-increment-on-fallback",
     "`nightshift enqueue --temperature=0,0.2,0.4` names all temperatures, one after the other"},
    {"carry-initial-prompt", "Nothing needs to be said: the text of `nightshift enqueue "
                             "--initial-prompt=TEXT` stands before every shard"},
    {"prompt", "`nightshift enqueue --initial-prompt=TEXT` is its name here"},
    {"no-timestamps", "`nightshift enqueue --without-timestamps` is its name here"},
    {"suppress-blank",
     "Nothing needs to be said: what a window cannot begin with is the model's list"},
    {"suppress-numerals",
     "`nightshift enqueue --suppress-tokens=N,...` takes the numbers of tokens "
     "that are never said"},
    {"repetition-penalty", REPEATS},
    {"no-repeat-ngram-size", REPEATS},
    {"prepend-punctuations", PUNCTUATION},
    {"append-punctuations", PUNCTUATION},
    {"align-model", WORD_TIMES},
    {"no-align", WORD_TIMES},
    {"interpolate-method", WORD_TIMES},
    {"return-char-alignments", "There is nothing like it here: times are of words, by `nightshift "
                               "enqueue --word-timestamps`"},
    {"diarize-model", "`nightshift enqueue --diarize=MODEL` takes a model of its own"},
    {"speaker-embeddings",
     "Nothing needs to be said: `nightshift enqueue --diarize` keeps them, and "
     "`nightshift speakers --like=RECORDING/SPEAKER` asks for them"},
    {"speaker-name", "`nightshift speakers name RECORDING/SPEAKER NAME` names a speaker"},
    {"clip-timestamps", WHOLE},
    {"duration", WHOLE},
    {"offset-t", WHOLE},
    {"live-transcribe", FILES},
    {"live-input-device", FILES},
    {"live-volume-threshold", FILES},
    {"recursive", "Nothing needs to be said: a folder is taken with all that lies below it"},
    {"batch-recursive", "Nothing needs to be said: a folder is taken with all that lies below it"},
};

/* Called the same here, for whoever gives them to another command. */
static const struct {
    const char *says; /* and then the option */
    const char *names[32];
} ours[] = {
    {"It is given when work is asked for, by `nightshift enqueue --",
     {"model",
      "language",
      "task",
      "translate",
      "multilingual",
      "temperature",
      "best-of",
      "beam-size",
      "patience",
      "length-penalty",
      "suppress-tokens",
      "initial-prompt",
      "condition-on-previous-text",
      "prompt-reset-on-temperature",
      "compression-ratio-threshold",
      "logprob-threshold",
      "no-speech-threshold",
      "word-timestamps",
      "hallucination-silence-threshold",
      "hotwords",
      "without-timestamps",
      "max-initial-timestamp",
      "vad-threshold",
      "vad-min-speech-duration-ms",
      "vad-min-silence-duration-ms",
      "vad-speech-pad-ms",
      "diarize",
      "num-speakers",
      "min-speakers",
      "max-speakers"}},
    {"It is given when files are written, by `nightshift export --", {"max-line-width"}},
};

const char *other_programs_say(const char *name, char out[OTHER_PROGRAMS_LEN])
{
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (strcmp(others[i].name, name) == 0) {
            snprintf(out, OTHER_PROGRAMS_LEN, "%s", others[i].says);
            return out;
        }
    for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
        for (size_t k = 0; ours[i].names[k]; k++)
            if (strcmp(ours[i].names[k], name) == 0) {
                snprintf(out, OTHER_PROGRAMS_LEN, "%s%s`", ours[i].says, name);
                return out;
            }
    return NULL;
}
