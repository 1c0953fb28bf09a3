#include "writing.h"

#include <algorithm>
#include <cctype>
#include <cstring>

#include "status.h"

namespace shingle {

using rocksdb::Env;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

IOStatus Closed(const std::string& path) { return IOStatus::IOError(path, "the file was closed"); }

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

}  // namespace

int KindOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const size_t dot = name.rfind('.');
  const bool numbered = dot != std::string::npos && dot > 0 &&
                        std::all_of(name.begin(), name.begin() + static_cast<ptrdiff_t>(dot), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (numbered && EndsWith(name, ".log")) {
    return SHINGLE_WAL;
  }
  if (EndsWith(name, ".sst") || EndsWith(name, ".ldb") || EndsWith(name, ".blob")) {
    return SHINGLE_TABLE;
  }
  return name.rfind("MANIFEST", 0) == 0 ? SHINGLE_MANIFEST : SHINGLE_OTHER;
}

int LifetimeOf(Env::WriteLifeTimeHint hint) {
  switch (hint) {
    case Env::WLTH_SHORT:
      return SHINGLE_LIFE_SHORT;
    case Env::WLTH_MEDIUM:
      return SHINGLE_LIFE_MEDIUM;
    case Env::WLTH_LONG:
      return SHINGLE_LIFE_LONG;
    case Env::WLTH_EXTREME:
      return SHINGLE_LIFE_EXTREME;
    default:
      return SHINGLE_LIFE_NONE;
  }
}

IOStatus WritableFile::Append(const Slice& data, const IOOptions&, IODebugContext*) {
  if (!writer_) {
    return Closed(path_);
  }
  Message message;
  const int done = shingle_append(writer_.get(), data.data(), data.size(), message.out());
  return StatusOf(done, path_, message);
}

IOStatus WritableFile::Truncate(uint64_t size, const IOOptions&, IODebugContext*) {
  if (!writer_) {
    return Closed(path_);
  }
  Message message;
  const int done = shingle_truncate(writer_.get(), size, message.out());
  return StatusOf(done, path_, message);
}

IOStatus WritableFile::Close(const IOOptions& options, IODebugContext* dbg) {
  if (!writer_) {
    return IOStatus::OK();
  }
  IOStatus flushed = Flush(options, dbg);
  size_when_closed_ = shingle_writer_size(writer_.get());
  writer_.reset();
  return flushed;
}

IOStatus WritableFile::Flush(const IOOptions&, IODebugContext*) {
  if (!writer_) {
    return Closed(path_);
  }
  Message message;
  const int done = shingle_flush(writer_.get(), message.out());
  return StatusOf(done, path_, message);
}

IOStatus WritableFile::Sync(const IOOptions&, IODebugContext*) {
  if (!writer_) {
    return Closed(path_);
  }
  Message message;
  const int done = shingle_sync(writer_.get(), message.out());
  return StatusOf(done, path_, message);
}

IOStatus WritableFile::RangeSync(uint64_t, uint64_t, const IOOptions& options, IODebugContext* dbg) {
  // Bytes go to the drive as they come; there is no page cache to be emptied little by little.
  return strict_bytes_per_sync_ ? Sync(options, dbg) : IOStatus::OK();
}

IOStatus WritableFile::InvalidateCache(size_t, size_t) { return IOStatus::OK(); }

uint64_t WritableFile::GetFileSize(const IOOptions&, IODebugContext*) { return writer_ ? shingle_writer_size(writer_.get()) : size_when_closed_; }

void WritableFile::SetWriteLifeTimeHint(Env::WriteLifeTimeHint hint) {
  write_hint_ = hint;
  if (writer_) {
    shingle_set_lifetime(writer_.get(), LifetimeOf(hint));
  }
}

void WritableFile::SetPreallocationBlockSize(size_t size) {
  FSWritableFile::SetPreallocationBlockSize(size);
  // RocksDB asks for the size of the table that it expects, and a tenth more.
  if (writer_ && size > 0 && KindOf(path_) == SHINGLE_TABLE) {
    shingle_expect(writer_.get(), size);
  }
}

void WritableFile::PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) {}

size_t WritableFile::GetUniqueId(char* id, size_t max_size) const {
  const uint64_t parts[2] = {store_, writer_ ? shingle_writer_serial(writer_.get()) : 0};
  if (max_size < sizeof(parts) || !writer_) {
    return 0;
  }
  memcpy(id, parts, sizeof(parts));
  return sizeof(parts);
}

}  // namespace shingle
