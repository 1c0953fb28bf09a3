#include "reading.h"

#include <cstring>
#include <utility>
#include <vector>

#include "status.h"

namespace shingle {

using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOHandleDeleter;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

// Most bytes that the C interface reads at once without waiting.
constexpr size_t kBegunBytesMax = 4 << 20;

IOStatus ReadAt(shingle_reader* reader, const std::string& path, uint64_t offset, size_t n, Slice* result, char* scratch) {
  size_t done = 0;
  Message message;
  const int found = shingle_read(reader, offset, scratch, n, &done, message.out());
  *result = Slice(scratch, done);
  return StatusOf(found, path, message);
}

// Waits for a read that was begun, into the memory of its request.
void Finish(shingle_pending* pending, const std::string& path, FSReadRequest& request) {
  size_t done = 0;
  Message message;
  const int found = shingle_read_wait(pending, request.scratch, request.len, &done, message.out());
  request.result = Slice(request.scratch, done);
  request.status = StatusOf(found, path, message);
}

// Begins a read. Without one that is pending, the request is complete: its bytes were in memory, or it failed.
shingle_pending* Begin(const shingle_reader* reader, const std::string& path, FSReadRequest& request) {
  shingle_pending* pending = nullptr;
  Message message;
  const int begun = shingle_read_begin(reader, request.offset, request.scratch, request.len, &pending, message.out());
  request.status = StatusOf(begun, path, message);
  request.result = Slice(request.scratch, begun == SHINGLE_OK ? request.len : 0);
  return pending;
}

// An asynchronous read. Its request is gone when its bytes arrive.
struct Begun {
  shingle_pending* pending;
  const uint64_t offset;
  const size_t length;
  char* const scratch;
  const std::string path;
  const ReadCallback callback;
  void* const argument;

  void Complete(bool aborted) {
    FSReadRequest request;
    request.offset = offset;
    request.len = length;
    request.scratch = scratch;
    shingle_pending* waited = std::exchange(pending, nullptr);
    if (aborted) {
      shingle_read_abandon(waited);
      request.status = IOStatus::Aborted();
    } else {
      Finish(waited, path, request);
    }
    callback(request, argument);
  }
};

void Delete(void* handle) {
  auto* begun = static_cast<Begun*>(handle);
  shingle_read_abandon(begun->pending);
  delete begun;
}

IOStatus CompleteAll(std::vector<void*>& handles, bool aborted) {
  for (void* handle : handles) {
    auto* begun = static_cast<Begun*>(handle);
    if (begun != nullptr && begun->pending != nullptr) {
      begun->Complete(aborted);
    }
  }
  return IOStatus::OK();
}

}  // namespace

IOStatus SequentialFile::Read(size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) {
  IOStatus status = ReadAt(reader_.get(), path_, position_, n, result, scratch);
  if (status.ok()) {
    position_ += result->size();
  }
  return status;
}

IOStatus SequentialFile::PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) {
  return ReadAt(reader_.get(), path_, offset, n, result, scratch);
}

IOStatus SequentialFile::Skip(uint64_t n) {
  // A position behind the end reads nothing, which is what a skip to the end does.
  position_ += n;
  return IOStatus::OK();
}

IOStatus SequentialFile::InvalidateCache(size_t, size_t) { return IOStatus::OK(); }

IOStatus RandomAccessFile::Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch, IODebugContext*) const {
  return ReadAt(reader_.get(), path_, offset, n, result, scratch);
}

IOStatus RandomAccessFile::MultiRead(FSReadRequest* requests, size_t count, const IOOptions& options, IODebugContext* dbg) {
  // Begun together, so that they reach the drive together.
  std::vector<shingle_pending*> begun(count, nullptr);
  for (size_t at = 0; at < count; ++at) {
    FSReadRequest& request = requests[at];
    if (request.len > kBegunBytesMax) {
      continue;
    }
    begun[at] = Begin(reader_.get(), path_, request);
  }
  for (size_t at = 0; at < count; ++at) {
    FSReadRequest& request = requests[at];
    if (begun[at] != nullptr) {
      Finish(begun[at], path_, request);
    } else if (request.len > kBegunBytesMax) {
      request.status = Read(request.offset, request.len, options, &request.result, request.scratch, dbg);
    }
  }
  return IOStatus::OK();
}

IOStatus RandomAccessFile::ReadAsync(FSReadRequest& request, const IOOptions& options, ReadCallback callback, void* argument, void** handle,
                                     IOHandleDeleter* deleter, IODebugContext* dbg) {
  if (request.len > kBegunBytesMax) {
    request.status = Read(request.offset, request.len, options, &request.result, request.scratch, dbg);
    callback(request, argument);
    return IOStatus::OK();
  }
  shingle_pending* pending = Begin(reader_.get(), path_, request);
  if (pending == nullptr) {
    callback(request, argument);
    return IOStatus::OK();
  }
  *handle = new Begun{pending, request.offset, request.len, request.scratch, path_, std::move(callback), argument};
  *deleter = Delete;
  return IOStatus::OK();
}

IOStatus RandomAccessFile::InvalidateCache(size_t, size_t) { return IOStatus::OK(); }

size_t RandomAccessFile::GetUniqueId(char* id, size_t max_size) const {
  const uint64_t parts[2] = {store_, shingle_reader_serial(reader_.get())};
  if (max_size < sizeof(parts)) {
    return 0;
  }
  memcpy(id, parts, sizeof(parts));
  return sizeof(parts);
}

IOStatus PollReads(std::vector<void*>& handles) { return CompleteAll(handles, false); }

IOStatus AbortReads(std::vector<void*>& handles) { return CompleteAll(handles, true); }

}  // namespace shingle
