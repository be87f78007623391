/* gpu/host/onednn.h - where oneDNN 2 (Debian 12) and 3 (Debian 13) differ: how memory is described,
 * and how a primitive is. Any thread. The statuses are oneDNN's. */
#ifndef NIGHTSHIFT_GPU_HOST_ONEDNN_H
#define NIGHTSHIFT_GPU_HOST_ONEDNN_H

#include <oneapi/dnnl/dnnl.h>

/* How memory is laid out: borrowed, of a primitive, a memory object or a struct onednn_layout_own.
 */
#if DNNL_VERSION_MAJOR < 3
typedef const dnnl_memory_desc_t *onednn_layout;
#else
typedef const_dnnl_memory_desc_t onednn_layout;
#endif

/* One of our own; after a failure, or zeroed, there is nothing to free in it. */
struct onednn_layout_own {
    dnnl_memory_desc_t desc;
};
dnnl_status_t onednn_layout_make(struct onednn_layout_own *ret, int count, const dnnl_dims_t dims,
                                 dnnl_data_type_t type, dnnl_format_tag_t tag);
onednn_layout onednn_layout_of(const struct onednn_layout_own *own);
void onednn_layout_free(struct onednn_layout_own *own);

/* Post-operations, with neutral scales. */
dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind);
dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops);

/* Input, weights, bias, output. */
struct onednn_operands {
    onednn_layout x, w, b, y;
};
/* Forward, for inference; the caller destroys *ret. dnnl_unimplemented: there is none for these. */
dnnl_status_t onednn_inner_product(dnnl_engine_t engine, const struct onednn_operands *o,
                                   const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret);
/* The same, direct; rows and columns of padding before and after. */
dnnl_status_t onednn_convolution(dnnl_engine_t engine, const struct onednn_operands *o,
                                 const dnnl_dims_t stride, const dnnl_dims_t before,
                                 const dnnl_dims_t after, const_dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t *ret);

#endif
