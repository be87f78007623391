/* Functions that all operations with oneDNN share. */
#include "gpu/host/host.h"

int host_attribute(enum epilogue epilogue, dnnl_primitive_attr_t *ret, struct err *err)
{
    dnnl_primitive_attr_t attr = NULL;
    dnnl_post_ops_t ops = NULL;
    dnnl_status_t status = dnnl_primitive_attr_create(&attr);

    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = dnnl_post_ops_create(&ops);
    if (status == dnnl_success && epilogue == EPILOGUE_GELU)
        status = onednn_append_eltwise(ops, dnnl_eltwise_gelu_erf);
    if (status == dnnl_success && epilogue == EPILOGUE_RELU)
        status = onednn_append_eltwise(ops, dnnl_eltwise_relu);
    if (status == dnnl_success && epilogue_adds(epilogue))
        status = onednn_append_sum(ops);
    if (status == dnnl_success)
        status = dnnl_primitive_attr_set_post_ops(attr, ops);
    if (ops)
        dnnl_post_ops_destroy(ops);
    if (status != dnnl_success) {
        if (attr)
            dnnl_primitive_attr_destroy(attr);
        return host_dnn(err, status, "setting up an epilogue");
    }
    *ret = attr;
    return 0;
}

int host_scratch(struct host *h, const_dnnl_primitive_desc_t pd, size_t more, size_t *ret,
                 struct err *err)
{
    const onednn_layout md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t own = md ? (dnnl_memory_desc_get_size(md) + 63) / 64 * 64 : 0;

    *ret = own;
    return host_grow(h, &h->scratch, &h->scratch_bytes, own + more, err);
}

int host_memory(struct host *h, const_dnnl_primitive_desc_t pd, dnnl_query_t what, void *p,
                dnnl_memory_t *ret, struct err *err)
{
    dnnl_status_t status =
        dnnl_memory_create(ret, dnnl_primitive_desc_query_md(pd, what, 0), h->engine, p);

    return status == dnnl_success ? 0 : host_dnn(err, status, "describing memory");
}

int host_reorder(struct host *h, onednn_layout from, const void *w, onednn_layout to, void *p,
                 dnnl_memory_t *ret, struct err *err)
{
    dnnl_primitive_desc_t reorder_pd = NULL;
    dnnl_primitive_t reorder = NULL;
    dnnl_memory_t source = NULL, packed = NULL;
    /* oneDNN's interface is not const-correct; the source is only read. */
    dnnl_status_t status = dnnl_memory_create(&source, from, h->engine, (void *)(uintptr_t)w);

    if (status == dnnl_success)
        status = dnnl_memory_create(&packed, to, h->engine, p);
    if (status == dnnl_success)
        status =
            dnnl_reorder_primitive_desc_create(&reorder_pd, from, h->engine, to, h->engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&reorder, reorder_pd);
    if (status == dnnl_success) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, packed}};

        status = dnnl_primitive_execute(reorder, h->stream, 2, args);
    }
    if (status == dnnl_success)
        status = dnnl_stream_wait(h->stream);
    if (reorder)
        dnnl_primitive_destroy(reorder);
    if (reorder_pd)
        dnnl_primitive_desc_destroy(reorder_pd);
    if (source)
        dnnl_memory_destroy(source);
    if (packed && (status != dnnl_success || !ret))
        dnnl_memory_destroy(packed);
    else if (ret)
        *ret = packed;
    return status == dnnl_success ? 0 : host_dnn(err, status, "packing weights");
}

int host_pack(struct host *h, const_dnnl_primitive_desc_t pd, onednn_layout from, const void *w,
              dnnl_memory_t *ret, void **data, struct err *err)
{
    const onednn_layout to = dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    void *p = NULL;
    int rc = host_alloc(&h->base, dnnl_memory_desc_get_size(to), &p, err);

    if (rc == 0)
        rc = host_reorder(h, from, w, to, p, ret, err);
    if (rc != 0) {
        host_release(&h->base, p);
        return rc;
    }
    *data = p;
    return 0;
}
