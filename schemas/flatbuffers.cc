/* SPDX-License-Identifier: Apache-2.0 */
// The only C++ file: see flatbuffers.h. Compiled twice, with REMAT_FB_READ and with REMAT_FB_WRITE,
// because the write half needs a C++ library and the runtime shall not.
#define FLATBUFFERS_ASSERT(condition) ((void)0) // conditions on input are the verifier's

#include "flatbuffers.h"

#include <new>
#include <utility>

#include "graph_generated.h"
#include "program_generated.h"

namespace fb = flatbuffers;

static_assert(FLATBUFFERS_LITTLEENDIAN, "arrays are copied as they are");
static_assert(sizeof(remat_fb_update) == sizeof(remat::graph::Update), "");
static_assert(sizeof(remat_fb_instruction) == sizeof(remat::program::Instruction), "");
static_assert(sizeof(remat_fb_cuda_launch) == sizeof(remat::program::CudaLaunch), "");
static_assert(alignof(remat::program::Instruction) <= 4, "vector elements are aligned to 4 only");

#ifdef REMAT_FB_READ

namespace
{

const fb::uoffset_t tables_max = 1u << 25;

template <typename Root>
remat_fb_result verify(const void *data, size_t bytes, const char *identifier)
{
    if (bytes < 8 || bytes > REMAT_FB_BYTES_MAX)
        return REMAT_FB_SIZE;
    if (reinterpret_cast<uintptr_t>(data) % REMAT_FB_ALIGNMENT)
        return REMAT_FB_UNALIGNED;
    if (memcmp(static_cast<const char *>(data) + 4, identifier, 4) != 0)
        return REMAT_FB_IDENTIFIER;
    fb::Verifier::Options options;
    options.max_depth = 8;
    // A table takes 4 bytes and a slot of 4 that refers to it; a smaller limit than the file could
    // hold by sharing, so that checking it stays linear in its size.
    options.max_tables =
        static_cast<fb::uoffset_t>(bytes / 8 < tables_max ? bytes / 8 : tables_max);
    fb::Verifier verifier(static_cast<const uint8_t *>(data), bytes, options);
    return verifier.VerifyBuffer<Root>(identifier) ? REMAT_FB_OK : REMAT_FB_MALFORMED;
}

remat_fb_text get_text(const fb::String *string)
{
    return string ? remat_fb_text{string->c_str(), string->size(), 0}
                  : remat_fb_text{nullptr, 0, 0};
}

template <typename T> remat_fb_array get_array(const fb::Vector<T> *vector)
{
    return vector ? remat_fb_array{vector->Data(), vector->size()} : remat_fb_array{nullptr, 0};
}

template <typename T> remat_fb_tables get_tables(const fb::Vector<fb::Offset<T>> *vector)
{
    return vector ? remat_fb_tables{vector, vector->size()} : remat_fb_tables{nullptr, 0};
}

template <typename T> const T *get(remat_fb_tables tables, uint32_t i)
{
    return static_cast<const fb::Vector<fb::Offset<T>> *>(tables.data)->Get(i);
}

#define FIELD(type, name) out->name = static_cast<type>(in->name());
#define TEXT(name)        out->name = get_text(in->name());
#define ARRAY(type, name) out->name = get_array(in->name());
#define TABLES(name)      out->name = get_tables(in->name());
#define TABLE(space, Name, fields)                                                                 \
    void copy(const remat::space::Name *in, remat_fb_##space##_##Name *out)                        \
    {                                                                                              \
        fields                                                                                     \
    }
#include "tables.def"
#undef TABLE

} // namespace

#define TABLE(space, Name, fields)                                                                 \
    void remat_fb_read_##space##_##Name(remat_fb_tables tables, uint32_t i,                        \
                                        remat_fb_##space##_##Name *out)                            \
    {                                                                                              \
        copy(get<remat::space::Name>(tables, i), out);                                             \
    }
#include "tables.def"
#undef TABLE
#undef FIELD
#undef TEXT
#undef ARRAY
#undef TABLES

void remat_fb_read_text(remat_fb_tables strings, uint32_t i, remat_fb_text *out)
{
    *out = get_text(get<fb::String>(strings, i));
}

remat_fb_result remat_fb_open_graph(const void *data, size_t bytes, remat_fb_graph_Graph *out)
{
    remat_fb_result result =
        verify<remat::graph::Graph>(data, bytes, remat::graph::GraphIdentifier());
    if (result == REMAT_FB_OK)
        copy(remat::graph::GetGraph(data), out);
    return result;
}

remat_fb_result remat_fb_open_program(const void *data, size_t bytes, remat_fb_program_Plan *out)
{
    remat_fb_result result =
        verify<remat::program::Plan>(data, bytes, remat::program::PlanIdentifier());
    if (result == REMAT_FB_OK)
        copy(remat::program::GetPlan(data), out);
    return result;
}

#endif

#ifdef REMAT_FB_WRITE

namespace
{

const size_t table_bytes_max = 2048; // a table, its vtable and both's scratch, without arrays
const size_t children_max = 32;      // of one table
const size_t block_bytes_first = 1u << 16;
const size_t block_alignment = 16;

// Hands out the block that `reserve` has got beforehand, as the builder takes no failure.
class BlockAllocator final : public fb::Allocator
{
  public:
    remat_fb_reallocate *reallocate = nullptr;
    void *user = nullptr;
    uint8_t *next = nullptr;
    uint8_t *allocate(size_t) override
    {
        return next;
    }
    void deallocate(uint8_t *block, size_t) override
    {
        reallocate(user, block, 0);
    }
};

// Converts to the offset of any type: each call site knows what it has.
struct AnyOffset {
    uint32_t id;
    template <typename T> operator fb::Offset<T>() const
    {
        return fb::Offset<T>(id);
    }
};

} // namespace

struct remat_fb_builder {
    BlockAllocator allocator;
    class Builder : public fb::FlatBufferBuilder
    {
      public:
        using FlatBufferBuilder::FlatBufferBuilder;
        size_t room() const
        {
            return buf_.capacity() - buf_.size() - buf_.scratch_size();
        }
        // Of the block that `grow` asks for, by the library's rule: the next by half as much.
        size_t next_bytes(size_t bytes) const
        {
            size_t more = buf_.capacity() ? buf_.capacity() / 2 : block_bytes_first;
            return buf_.capacity() + (more > bytes ? more : bytes) + block_alignment;
        }
        void grow(size_t bytes)
        {
            buf_.ensure_space(bytes);
        }
    } flat;
    remat_fb_result fault;

    remat_fb_builder(remat_fb_reallocate *reallocate, void *user)
        : flat(block_bytes_first, &allocator, false), fault(REMAT_FB_OK)
    {
        allocator.reallocate = reallocate;
        allocator.user = user;
    }
    bool reserve(size_t bytes)
    {
        if (fault != REMAT_FB_OK || bytes <= flat.room())
            return fault == REMAT_FB_OK;
        if (bytes > REMAT_FB_BYTES_MAX - flat.GetSize()) {
            fault = REMAT_FB_SIZE;
            return false;
        }
        void *block = allocator.reallocate(allocator.user, nullptr, flat.next_bytes(bytes));
        if (!block) {
            fault = REMAT_FB_MEMORY;
            return false;
        }
        allocator.next = static_cast<uint8_t *>(block);
        flat.grow(bytes);
        return true;
    }
};

namespace
{

AnyOffset put_array(remat_fb_builder *b, const void *data, size_t count, size_t element_bytes)
{
    if (!count || !b->reserve(count * element_bytes + 64))
        return {0};
    b->flat.StartVector(count, element_bytes);
    b->flat.PushBytes(static_cast<const uint8_t *>(data), count * element_bytes);
    return {b->flat.EndVector(count)};
}

AnyOffset put_tables(remat_fb_builder *b, remat_fb_tables tables)
{
    if (!tables.count || !b->reserve(size_t(tables.count) * 4 + 64))
        return {0};
    const uint32_t *ids = static_cast<const uint32_t *>(tables.data);
    b->flat.StartVector(tables.count, sizeof *ids);
    for (uint32_t i = tables.count; i-- > 0;)
        b->flat.PushElement(fb::Offset<void>(ids[i]));
    return {b->flat.EndVector(tables.count)};
}

template <typename Root, typename Finish>
remat_fb_result finish(remat_fb_builder *b, uint32_t root, Finish finish_root,
                       const void **out_data, size_t *out_bytes)
{
    if (!b->reserve(table_bytes_max))
        return b->fault;
    finish_root(b->flat, fb::Offset<Root>(root));
    *out_data = b->flat.GetBufferPointer();
    *out_bytes = b->flat.GetSize();
    return *out_bytes > REMAT_FB_BYTES_MAX ? REMAT_FB_SIZE : REMAT_FB_OK;
}

} // namespace

remat_fb_builder *remat_fb_begin(remat_fb_reallocate *reallocate, void *user)
{
    void *block = reallocate(user, nullptr, sizeof(remat_fb_builder));
    return block ? new (block) remat_fb_builder(reallocate, user) : nullptr;
}

void remat_fb_end(remat_fb_builder *b)
{
    if (!b)
        return;
    remat_fb_reallocate *reallocate = b->allocator.reallocate;
    void *user = b->allocator.user;
    b->~remat_fb_builder();
    reallocate(user, b, 0);
}

uint32_t remat_fb_write_text(remat_fb_builder *b, const char *text, size_t length)
{
    if (length > REMAT_FB_BYTES_MAX || !b->reserve(length + 64))
        return 0;
    return b->flat.CreateString(text, length).o;
}

// A table's children are written before it: `slot` holds them in the order of its fields. Empty
// arrays and strings without an id are left out.
#define FIELD(type, name)
#define TEXT(name)        *slot++ = AnyOffset{in->name.id};
#define ARRAY(type, name) *slot++ = put_array(b, in->name.data, in->name.count, sizeof(type));
#define TABLES(name)      *slot++ = put_tables(b, in->name);
#define TABLE(space, Name, fields)                                                                 \
    static void put_children(remat_fb_builder *b, const remat_fb_##space##_##Name *in,             \
                             AnyOffset *slot)                                                      \
    {                                                                                              \
        (void)b, (void)in, (void)slot;                                                             \
        fields                                                                                     \
    }
#include "tables.def"
#undef TABLE
#undef FIELD
#undef TEXT
#undef ARRAY
#undef TABLES

#define FIELD(type, name)                                                                          \
    out.add_##name(static_cast<decltype(std::declval<const Table &>().name())>(in->name));
#define TEXT(name)        out.add_##name(*slot++);
#define ARRAY(type, name) out.add_##name(*slot++);
#define TABLES(name)      out.add_##name(*slot++);
#define TABLE(space, Name, fields)                                                                 \
    uint32_t remat_fb_write_##space##_##Name(remat_fb_builder *b,                                  \
                                             const remat_fb_##space##_##Name *in)                  \
    {                                                                                              \
        using Table [[maybe_unused]] = remat::space::Name;                                         \
        AnyOffset children[children_max], *slot = children;                                        \
        put_children(b, in, children);                                                             \
        if (!b->reserve(table_bytes_max))                                                          \
            return 0;                                                                              \
        remat::space::Name##Builder out(b->flat);                                                  \
        fields(void) slot;                                                                         \
        return out.Finish().o;                                                                     \
    }
#include "tables.def"
#undef TABLE
#undef FIELD
#undef TEXT
#undef ARRAY
#undef TABLES

remat_fb_result remat_fb_finish_graph(remat_fb_builder *b, uint32_t root, const void **out_data,
                                      size_t *out_bytes)
{
    return finish<remat::graph::Graph>(b, root, remat::graph::FinishGraphBuffer, out_data,
                                       out_bytes);
}

remat_fb_result remat_fb_finish_program(remat_fb_builder *b, uint32_t root, const void **out_data,
                                        size_t *out_bytes)
{
    return finish<remat::program::Plan>(b, root, remat::program::FinishPlanBuffer, out_data,
                                        out_bytes);
}

#endif
