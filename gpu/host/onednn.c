#include "gpu/host/onednn.h"

#include <stddef.h>

#if DNNL_VERSION_MAJOR < 3

dnnl_status_t onednn_layout_make(struct onednn_layout_own *ret, int count, const dnnl_dims_t dims,
                                 dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    return dnnl_memory_desc_init_by_tag(&ret->desc, count, dims, type, tag);
}

onednn_layout onednn_layout_of(const struct onednn_layout_own *own) { return &own->desc; }

void onednn_layout_free(struct onednn_layout_own *own) { (void)own; }

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind)
{
    return dnnl_post_ops_append_eltwise(ops, 1.0f, kind, 0.0f, 0.0f);
}

dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1.0f); }

dnnl_status_t onednn_inner_product(dnnl_engine_t engine, const struct onednn_operands *o,
                                   const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
    dnnl_inner_product_desc_t desc;
    dnnl_status_t status =
        dnnl_inner_product_forward_desc_init(&desc, dnnl_forward_inference, o->x, o->w, o->b, o->y);

    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret, &desc, attr, engine, NULL);
}

dnnl_status_t onednn_convolution(dnnl_engine_t engine, const struct onednn_operands *o,
                                 const dnnl_dims_t stride, const dnnl_dims_t before,
                                 const dnnl_dims_t after, const_dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t *ret)
{
    dnnl_convolution_desc_t desc;
    dnnl_status_t status =
        dnnl_convolution_forward_desc_init(&desc, dnnl_forward_inference, dnnl_convolution_direct,
                                           o->x, o->w, o->b, o->y, stride, before, after);

    return status != dnnl_success ? status
                                  : dnnl_primitive_desc_create(ret, &desc, attr, engine, NULL);
}

#else

dnnl_status_t onednn_layout_make(struct onednn_layout_own *ret, int count, const dnnl_dims_t dims,
                                 dnnl_data_type_t type, dnnl_format_tag_t tag)
{
    ret->desc = NULL;
    return dnnl_memory_desc_create_with_tag(&ret->desc, count, dims, type, tag);
}

onednn_layout onednn_layout_of(const struct onednn_layout_own *own) { return own->desc; }

void onednn_layout_free(struct onednn_layout_own *own)
{
    if (own->desc)
        dnnl_memory_desc_destroy(own->desc);
    own->desc = NULL;
}

dnnl_status_t onednn_append_eltwise(dnnl_post_ops_t ops, dnnl_alg_kind_t kind)
{
    return dnnl_post_ops_append_eltwise(ops, kind, 0.0f, 0.0f);
}

dnnl_status_t onednn_append_sum(dnnl_post_ops_t ops)
{
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
}

dnnl_status_t onednn_inner_product(dnnl_engine_t engine, const struct onednn_operands *o,
                                   const_dnnl_primitive_attr_t attr, dnnl_primitive_desc_t *ret)
{
    return dnnl_inner_product_forward_primitive_desc_create(ret, engine, dnnl_forward_inference,
                                                            o->x, o->w, o->b, o->y, attr);
}

dnnl_status_t onednn_convolution(dnnl_engine_t engine, const struct onednn_operands *o,
                                 const dnnl_dims_t stride, const dnnl_dims_t before,
                                 const dnnl_dims_t after, const_dnnl_primitive_attr_t attr,
                                 dnnl_primitive_desc_t *ret)
{
    const dnnl_dims_t undilated = {0};

    return dnnl_convolution_forward_primitive_desc_create(
        ret, engine, dnnl_forward_inference, dnnl_convolution_direct, o->x, o->w, o->b, o->y,
        stride, undilated, before, after, attr);
}

#endif
