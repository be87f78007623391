/* LoRA adapters that are damaged here: what is refused, and with which sentence. */
#include "tests/common/test.h"

#include <stdbool.h>
#include <unistd.h>

#include "base/buf.h"
#include "tests/common/files.h"
#include "tests/unit/models/layout_copy.h"
#include "workers/models/files/weights.h"

/* adapter_config.json with one text in place of another. */
static void adapter_says(const char *find, const char *put)
{
    char *text, *at;
    FILE *f;

    layout_copy(MADE "lora");
    text = file_read(layout_file("adapter_config.json"), NULL);
    at = strstr(text, find);
    f = fopen(layout_file("adapter_config.json"), "w");
    assert_true(at && f);
    fprintf(f, "%.*s%s%s", (int)(at - text), text, put, at + strlen(find));
    assert_int_equal(fclose(f), 0);
    free(text);
}

static void adapter_fails(const char *sentence)
{
    struct weights *w = NULL;
    struct err e = {0};

    assert_int_equal(weights_open(COPY, &w, &e), ERR_MODEL);
    print_message("  %s\n", e.msg);
    assert_null(w);
    assert_says(e.msg, sentence);
}

TEST(adapters_are_checked)
{
    static const char *const wrong[][3] = {
        {"\"LORA\"", "\"LOHA\"", "of the kind 'LOHA', not LORA"},
        {"\"use_dora\": false", "\"use_dora\": true", "use_dora is not supported"},
        {"\"init_lora_weights\": true", "\"init_lora_weights\": \"pissa\"",
         "which changes the base"},
        {"\"lora_alpha\": 8", "\"lora_alpha\": \"8\"", "no number lora_alpha"},
        {"layers.1.fc1", "layers.[12].fc1", "alpha_pattern has 'layers.[12].fc1'"},
        {"\"revision\": null", "\"revision\": \"v2\"", "wants revision 'v2' of its base"},
        {"base_model_name_or_path", "base", "does not name its base"},
    };

    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        adapter_says(wrong[i][0], wrong[i][1]);
        adapter_fails(wrong[i][2]);
    }
    layout_copy(MADE "lora");
    file_text(layout_file("adapter_config.json"), "{\"peft_type\":\"LORA\",\"lora_alpha\":1,"
                                                  "\"base_model_name_or_path\":\"./nowhere\"}");
    adapter_fails("its base: no model");
    file_text(layout_file("adapter_config.json"), "{\"peft_type\":\"LORA\",\"lora_alpha\":1,"
                                                  "\"base_model_name_or_path\":\".\"}");
    adapter_fails("is an adapter itself");
    file_text(layout_file("adapter_config.json"), "[]");
    adapter_fails("adapter_config.json is not a JSON object");
    layout_copy(MADE "lora");
    unlink(layout_file("adapter_model.safetensors"));
    adapter_fails("no adapter_model.safetensors or adapter_model.bin");
}

/* A file of these tensors of float32, all of them rank x cols or as said. */
static void put_adapter(const char *header)
{
    size_t len = strlen(header);
    struct buf b = BUF_INIT;

    layout_copy(MADE "lora");
    buf_put_u64(&b, len);
    buf_put(&b, header, len);
    for (int i = 0; i < 4096; i++)
        buf_put_u32(&b, 0);
    file_write(layout_file("adapter_model.safetensors"), b.data, b.len);
    buf_free(&b);
}

#define IN "base_model.model.model.encoder.layers.0.fc1"
#define F32_AT(name, shape, begin, end) \
    "\"" name "\":{\"dtype\":\"F32\",\"shape\":" shape ",\"data_offsets\":[" #begin "," #end "]}"

TEST(matrices_of_adapters_are_checked)
{
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,192]", 0,
                           1536) "," F32_AT(IN ".lora_B.weight", "[768,2]", 1536, 7680) "}");
    {
        struct weights *w = NULL;
        struct err e = {0};

        assert_ok(weights_open(COPY, &w, &e), e);
        weights_close(w);
    }
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,192]", 0, 1536) "}");
    adapter_fails("has no lora_B");
    put_adapter("{" F32_AT(IN ".lora_B.weight", "[2,192]", 0, 1536) "}");
    adapter_fails("it adapts nothing");
    put_adapter("{}");
    adapter_fails("it adapts nothing");
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,192]", 0,
                           1536) "," F32_AT(IN ".lora_B.weight", "[384,4]", 1536, 7680) "}");
    adapter_fails("without a common rank");
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[0,192]", 0, 0) "," F32_AT(IN ".lora_B.weight",
                                                                            "[768,0]", 0, 0) "}");
    adapter_fails("without a common rank");
    put_adapter("{" F32_AT(IN ".lora_A.weight", "[2,96]", 0,
                           768) "," F32_AT(IN ".lora_B.weight", "[768,2]", 768, 6912) "}");
    adapter_fails("has another shape: it is of another base");
    put_adapter("{" F32_AT("base_model.model.model.nothing.lora_A.weight", "[1,1]", 0,
                           4) "," F32_AT("base_model.model.model.nothing.lora_B.weight", "[1,1]", 4,
                                         8) "}");
    adapter_fails("adapts 'model.nothing.weight', which its base lacks");
    put_adapter("{" F32_AT("base_model.model.proj_out.weight", "[1,1]", 0, 4) "}");
    adapter_fails("which is none of a plain LoRA");
    put_adapter("{" F32_AT("lora_A.weight", "[1,1]", 0, 4) "}");
    adapter_fails("which is none of a plain LoRA");
}

TEST_MAIN(NULL, NULL)
