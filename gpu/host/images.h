/* gpu/host/images.h - what the two ways to convolve an image share. */
#ifndef NIGHTSHIFT_GPU_HOST_IMAGES_H
#define NIGHTSHIFT_GPU_HOST_IMAGES_H

#include "gpu/host/host.h"

#define IMAGES_PREPARED 4 /* shapes and epilogues that are kept ready for one set of weights */

/* oneDNN needs this to run for images of one shape, or for gathered pieces of so many rows. */
struct prepared_image {
    int64_t height, width;
    enum epilogue epilogue;
    enum dtype y_type;
    bool slow; /* it has nothing but its reference loops for this: all below is NULL */
    dnnl_primitive_t primitive;
    dnnl_memory_t w_memory; /* packed as this shape wants it; the conv2d's own when they agree */
    void *w;                /* NULL: the conv2d's */
    dnnl_memory_t x, y, bias, scratch;
    size_t gathered; /* where in the scratch memory what it gathers begins, behind oneDNN's own */
};

struct conv2d {
    struct conv2d_spec spec;
    enum dtype type;
    float *source; /* [out][kernel_h][kernel_w][in], until oneDNN has it packed; of a depthwise one
                      [kernel_h][kernel_w][in], for good */
    float *bias;
    struct row_weights rows; /* [out][kernel_h][kernel_w][in]; from its first use on */
    dnnl_memory_t w_memory;  /* from its first use on */
    void *w;
    struct prepared_image prepared[IMAGES_PREPARED];
    int count;
};

/* One call's. */
struct images {
    struct conv2d *c;
    int64_t count, height, width, out_height, out_width; /* the sizes of one image */
    struct tensor x, y;
    enum epilogue epilogue;
};

/* Does an image that goes by oneDNN go as rows of what its outputs see? */
bool images_gathered(const struct conv2d_spec *s);
/* The part of its image that output `row` of y sees, zeros where there is none. */
void images_gather(const struct images *j, int64_t row, char *to);
/* One image after the other by oneDNN. *done: false when it has no fast way, and nothing was
 * touched. */
int images_by_dnn(struct host *h, const struct images *j, bool *done, struct err *err);
/* The weights as `source` had them, rounded to the type, out of what oneDNN has packed. */
int images_unpack(struct host *h, const struct conv2d *c, float *to, struct err *err);
void images_forget(struct backend *be, struct conv2d *c);

#endif
