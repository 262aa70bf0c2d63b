// callbacks.cpp - C++17: a model behind a function, an output behind another one. A program that keeps models in an
// archive, a database or an object store gives the library its own functions.
//
//     callbacks IN OUT.npz
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>

#include <vcompress/vcompress.h>

namespace
{
template <auto Free> struct Deleter {
    template <class T> void operator()(T *object) const
    {
        Free(object);
    }
};
using Context = std::unique_ptr<vc_ctx, Deleter<vc_ctx_free>>;
using Model = std::unique_ptr<vc_model, Deleter<vc_model_close>>;
using Job = std::unique_ptr<vc_job, Deleter<vc_job_free>>;

// What the library calls from several threads, so that each needs the lock. Exceptions must not cross the library.
struct Store {
    std::fstream file;
    std::mutex lock;
    bool complete = false;

    static bool read(void *user, uint64_t offset, void *dst, size_t n)
    {
        auto *self = static_cast<Store *>(user);
        const std::lock_guard<std::mutex> guard(self->lock);

        self->file.seekg(static_cast<std::streamoff>(offset));
        return static_cast<bool>(self->file.read(static_cast<char *>(dst), static_cast<std::streamsize>(n)));
    }
    static bool write(void *user, uint64_t offset, const void *data, size_t n)
    {
        auto *self = static_cast<Store *>(user);
        const std::lock_guard<std::mutex> guard(self->lock);

        self->file.seekp(static_cast<std::streamoff>(offset));
        return static_cast<bool>(self->file.write(static_cast<const char *>(data), static_cast<std::streamsize>(n)));
    }
    static bool commit(void *user)
    {
        auto *self = static_cast<Store *>(user);

        self->complete = static_cast<bool>(self->file.flush());
        return self->complete;
    }
};

vc_status shrink(vc_ctx *ctx, const std::string &name, Store &in, uint64_t size, Store &out)
{
    const vc_reader reader{nullptr, size, Store::read, &in};
    const vc_writer writer{nullptr, Store::write, Store::commit, &out};
    vc_open_options open;
    vc_quantize_options quantize;
    vc_write_options write;
    vc_model *opened = nullptr;
    vc_job *created = nullptr;

    vc_open_defaults(&open);
    open.reader = &reader;
    vc_quantize_defaults(&quantize);
    vc_write_defaults(&write);
    write.writer = &writer;
    write.format = "npz";
    if (vc_status status = vc_model_open(ctx, name.c_str(), &open, &opened); status != VC_OK) {
        return status;
    }
    const Model model(opened);
    if (vc_status status = vc_job_create(ctx, opened, &created); status != VC_OK) {
        return status;
    }
    const Job job(created);
    if (vc_status status = vc_job_add_quantize(ctx, created, &quantize); status != VC_OK) {
        return status;
    }
    if (vc_status status = vc_job_plan(ctx, created, &write); status != VC_OK) {
        return status;
    }
    return vc_job_run(ctx, created);
}
} // namespace

int main(int argc, char **argv)
{
    vc_ctx *created = nullptr;
    vc_status status = vc_ctx_create(&created);
    const Context ctx(created);
    Store in;
    Store out;

    if (argc != 3 || status != VC_OK) {
        std::fprintf(stderr, "usage: callbacks IN OUT.npz\n");
        return 2;
    }
    in.file.open(argv[1], std::ios::in | std::ios::binary | std::ios::ate);
    out.file.open(argv[2], std::ios::out | std::ios::binary | std::ios::trunc);
    const auto size = in.file ? static_cast<uint64_t>(in.file.tellg()) : 0;
    status = shrink(ctx.get(), argv[1], in, size, out);
    if (status != VC_OK || !out.complete) {
        std::fprintf(stderr, "callbacks: %s\n", vc_ctx_message(ctx.get()));
        std::remove(argv[2]);
        return 1;
    }
    std::printf("%s: %lld bytes\n", argv[2], static_cast<long long>(out.file.tellp()));
}
