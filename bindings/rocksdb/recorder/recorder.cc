// A file system that records the calls that reach it, and hands them to another one: `shingle-record://`, or `shingle-record://URI` above the
// file system of that name. `SHINGLE_ROCKSDB_RECORD` names the file to write. Makes it a name for every program that loads this library.

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "recording.h"
#include "rocksdb/convenience.h"
#include "rocksdb/file_system.h"
#include "rocksdb/utilities/object_registry.h"

namespace shingle {
namespace {

using rocksdb::FileOptions;
using rocksdb::FileSystem;
using rocksdb::FSReadRequest;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

constexpr char kScheme[] = "shingle-record://";
constexpr char kVariable[] = "SHINGLE_ROCKSDB_RECORD";

std::string Bytes(uint64_t offset, uint64_t length) { return " " + std::to_string(offset) + " " + std::to_string(length); }

class Writing : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  Writing(Recording* recording, uint32_t file, std::unique_ptr<rocksdb::FSWritableFile>&& target)
      : FSWritableFileOwnerWrapper(std::move(target)), recording_(recording), file_(file) {}

  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    return Appending(data.size(), [&] { return target()->Append(data, options, dbg); });
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& info, IODebugContext* dbg) override {
    return Appending(data.size(), [&] { return target()->Append(data, options, info, dbg); });
  }
  // Direct writes: those of the last block again are appends of what is new, which the file's owner knows and this one does not.
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("a recording has no direct writes: leave use_direct_io_for_flush_and_compaction off");
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& options, const rocksdb::DataVerificationInfo&,
                            IODebugContext* dbg) override {
    return PositionedAppend(data, offset, options, dbg);
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override {
    // RocksDB cuts what was allocated beyond the end when it closes a file: no more than its size.
    return target()->Truncate(size, options, dbg);
  }
  IOStatus Close(const IOOptions& options, IODebugContext* dbg) override {
    return Call('x', std::string(), [&] { return target()->Close(options, dbg); });
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    return Call('s', std::string(), [&] { return target()->Sync(options, dbg); });
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return Call('s', std::string(), [&] { return target()->Fsync(options, dbg); });
  }
  IOStatus RangeSync(uint64_t offset, uint64_t length, const IOOptions& options, IODebugContext* dbg) override {
    return Call('g', Bytes(offset, length), [&] { return target()->RangeSync(offset, length, options, dbg); });
  }
  void SetWriteLifeTimeHint(rocksdb::Env::WriteLifeTimeHint hint) override {
    const uint64_t began = recording_->Begin();
    target()->SetWriteLifeTimeHint(hint);
    recording_->End(began, 'h', file_, " " + std::to_string(static_cast<int>(hint)));
  }
  void SetPreallocationBlockSize(size_t size) override {
    const uint64_t began = recording_->Begin();
    target()->SetPreallocationBlockSize(size);
    recording_->End(began, 'p', file_, " " + std::to_string(size));
  }

 private:
  template <typename Run>
  IOStatus Call(char kind, const std::string& rest, Run run) {
    const uint64_t began = recording_->Begin();
    IOStatus status = run();
    if (status.ok()) {
      recording_->End(began, kind, file_, rest);
    }
    return status;
  }
  template <typename Run>
  IOStatus Appending(size_t bytes, Run run) {
    const uint64_t began = recording_->BeginAppend(file_);
    IOStatus status = run();
    if (status.ok()) {
      recording_->EndAppend(began, file_, bytes);
    }
    return status;
  }

  Recording* const recording_;
  const uint32_t file_;
};

class Reading : public rocksdb::FSRandomAccessFile {
 public:
  Reading(Recording* recording, uint32_t file, std::unique_ptr<rocksdb::FSRandomAccessFile>&& target)
      : recording_(recording), file_(file), target_(std::move(target)) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) const override {
    const uint64_t began = recording_->Begin();
    IOStatus status = target_->Read(offset, n, options, result, scratch, dbg);
    if (status.ok()) {
      recording_->End(began, 'r', file_, Bytes(offset, result->size()));
    }
    return status;
  }
  // RocksDB reads ahead into memory of its own then, so that every read is a call. MultiRead and ReadAsync are reads by default.
  IOStatus Prefetch(uint64_t, size_t, const IOOptions&, IODebugContext*) override { return IOStatus::NotSupported("Prefetch"); }
  size_t GetUniqueId(char* id, size_t max_size) const override { return target_->GetUniqueId(id, max_size); }
  void Hint(AccessPattern pattern) override { target_->Hint(pattern); }
  bool use_direct_io() const override { return target_->use_direct_io(); }
  size_t GetRequiredBufferAlignment() const override { return target_->GetRequiredBufferAlignment(); }
  IOStatus InvalidateCache(size_t offset, size_t length) override { return target_->InvalidateCache(offset, length); }

 private:
  Recording* const recording_;
  const uint32_t file_;
  const std::unique_ptr<rocksdb::FSRandomAccessFile> target_;
};

class ReadingInOrder : public rocksdb::FSSequentialFileOwnerWrapper {
 public:
  ReadingInOrder(Recording* recording, uint32_t file, std::unique_ptr<rocksdb::FSSequentialFile>&& target)
      : FSSequentialFileOwnerWrapper(std::move(target)), recording_(recording), file_(file) {}

  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) override {
    const uint64_t began = recording_->Begin();
    IOStatus status = target()->Read(n, options, result, scratch, dbg);
    if (status.ok()) {
      recording_->End(began, 'r', file_, Bytes(position_, result->size()));
      position_ += result->size();
    }
    return status;
  }
  IOStatus Skip(uint64_t n) override {
    position_ += n;
    return target()->Skip(n);
  }

 private:
  Recording* const recording_;
  const uint32_t file_;
  uint64_t position_ = 0;
};

class Directory : public rocksdb::FSDirectoryWrapper {
 public:
  Directory(Recording* recording, std::unique_ptr<rocksdb::FSDirectory>&& target) : FSDirectoryWrapper(std::move(target)), recording_(recording) {}

  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return Call([&] { return FSDirectoryWrapper::Fsync(options, dbg); });
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* dbg, const rocksdb::DirFsyncOptions& what) override {
    return Call([&] { return FSDirectoryWrapper::FsyncWithDirOptions(options, dbg, what); });
  }

 private:
  template <typename Run>
  IOStatus Call(Run run) {
    const uint64_t began = recording_->Begin();
    IOStatus status = run();
    if (status.ok()) {
      recording_->End(began, 'y', 0);
    }
    return status;
  }

  Recording* const recording_;
};

class Recorder : public rocksdb::FileSystemWrapper {
 public:
  Recorder(std::string uri, Recording* recording, const std::shared_ptr<FileSystem>& target)
      : FileSystemWrapper(target), uri_(std::move(uri)), recording_(recording) {}

  const char* Name() const override { return "shingle-record"; }
  std::string GetId() const override { return uri_; }
  bool IsInstanceOf(const std::string& id) const override { return id == uri_ || FileSystemWrapper::IsInstanceOf(id); }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* result,
                           IODebugContext* dbg) override {
    const uint64_t began = recording_->Begin();
    IOStatus status = target_->NewWritableFile(path, options, result, dbg);
    if (status.ok()) {
      const uint32_t file = recording_->Create(path);
      recording_->End(began, 'c', file, " " + NameOf(path));
      result->reset(new Writing(recording_, file, std::move(*result)));
    }
    return status;
  }
  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* result,
                              IODebugContext* dbg) override {
    uint32_t file = 0;
    IOStatus status = Known(path, &file, dbg);
    if (status.ok()) {
      status = target_->ReopenWritableFile(path, options, result, dbg);
    }
    if (status.ok()) {
      result->reset(new Writing(recording_, file, std::move(*result)));
    }
    return status;
  }
  IOStatus ReuseWritableFile(const std::string& path, const std::string& old, const FileOptions& options,
                             std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* dbg) override {
    // A file that is written again from its beginning: as a new one in its place.
    IOStatus status = DeleteFile(old, options.io_options, dbg);
    return status.ok() ? NewWritableFile(path, options, result, dbg) : status;
  }
  IOStatus NewRandomRWFile(const std::string&, const FileOptions&, std::unique_ptr<rocksdb::FSRandomRWFile>*, IODebugContext*) override {
    return IOStatus::NotSupported("a recording has no files that are written anywhere");
  }
  IOStatus NewMemoryMappedFileBuffer(const std::string&, std::unique_ptr<rocksdb::MemoryMappedFileBuffer>*) override {
    return IOStatus::NotSupported("a recording has no mapped files");
  }
  IOStatus NewRandomAccessFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                               IODebugContext* dbg) override {
    uint32_t file = 0;
    IOStatus status = Opened(path, &file, dbg, [&] { return target_->NewRandomAccessFile(path, options, result, dbg); });
    if (status.ok()) {
      result->reset(new Reading(recording_, file, std::move(*result)));
    }
    return status;
  }
  IOStatus NewSequentialFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSSequentialFile>* result,
                             IODebugContext* dbg) override {
    uint32_t file = 0;
    IOStatus status = Opened(path, &file, dbg, [&] { return target_->NewSequentialFile(path, options, result, dbg); });
    if (status.ok()) {
      result->reset(new ReadingInOrder(recording_, file, std::move(*result)));
    }
    return status;
  }
  IOStatus NewDirectory(const std::string& path, const IOOptions& options, std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext* dbg) override {
    IOStatus status = target_->NewDirectory(path, options, result, dbg);
    if (status.ok()) {
      result->reset(new Directory(recording_, std::move(*result)));
    }
    return status;
  }
  IOStatus DeleteFile(const std::string& path, const IOOptions& options, IODebugContext* dbg) override {
    uint32_t file = 0;
    IOStatus status = Known(path, &file, dbg);
    if (!status.ok()) {
      return status;
    }
    const uint64_t began = recording_->Begin();
    status = target_->DeleteFile(path, options, dbg);
    if (status.ok()) {
      recording_->Remove(path);
      recording_->End(began, 'd', file);
    }
    return status;
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options, IODebugContext* dbg) override {
    bool directory = false;
    if (target_->IsDirectory(from, options, &directory, dbg).ok() && directory) {
      return target_->RenameFile(from, to, options, dbg);
    }
    uint32_t file = 0;
    IOStatus status = Known(from, &file, dbg);
    if (!status.ok()) {
      return status;
    }
    const uint64_t began = recording_->Begin();
    status = target_->RenameFile(from, to, options, dbg);
    if (status.ok()) {
      recording_->Rename(from, to);
      recording_->End(began, 'n', file, " " + NameOf(to));
    }
    return status;
  }
  IOStatus LinkFile(const std::string&, const std::string&, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("a recording has no links");
  }
  IOStatus Poll(std::vector<void*>&, size_t) override { return IOStatus::OK(); }
  IOStatus AbortIO(std::vector<void*>&) override { return IOStatus::OK(); }

 private:
  // The number of a file that is there.
  IOStatus Known(const std::string& path, uint32_t* file, IODebugContext* dbg) {
    uint64_t size = 0;
    IOStatus status = target_->GetFileSize(path, IOOptions(), &size, dbg);
    if (status.ok()) {
      *file = recording_->Known(path, size);
    }
    return status;
  }
  template <typename Open>
  IOStatus Opened(const std::string& path, uint32_t* file, IODebugContext* dbg, Open open) {
    IOStatus status = Known(path, file, dbg);
    if (!status.ok()) {
      return status;
    }
    const uint64_t began = recording_->Begin();
    status = open();
    if (status.ok()) {
      recording_->End(began, 'o', *file);
    }
    return status;
  }

  const std::string uri_;
  Recording* const recording_;
};

// The recording of this process: its file systems' calls are of one program. It stays, as threads may outlive all else.
Recording* TheRecording(std::string* error) {
  static std::string failure;
  static Recording* const recording = []() -> Recording* {
    const char* path = std::getenv(kVariable);
    if (path == nullptr || *path == '\0') {
      failure = std::string(kVariable) + " must name the file to write";
      return nullptr;
    }
    Recording* opened = Recording::Open(path);
    if (opened == nullptr) {
      failure = std::string(path) + ": " + std::strerror(errno);
    }
    return opened;
  }();
  *error = failure;
  return recording;
}

FileSystem* Make(const std::string& uri, std::unique_ptr<FileSystem>* guard, std::string* error) {
  Recording* const recording = TheRecording(error);
  if (recording == nullptr) {
    return nullptr;
  }
  const std::string under = uri.substr(sizeof(kScheme) - 1);
  std::shared_ptr<FileSystem> target = FileSystem::Default();
  if (!under.empty()) {
    const rocksdb::Status made = FileSystem::CreateFromString(rocksdb::ConfigOptions(), under, &target);
    if (!made.ok()) {
      *error = made.ToString();
      return nullptr;
    }
  }
  guard->reset(new Recorder(uri, recording, target));
  return guard->get();
}

// Runs when the library is loaded, also by LD_PRELOAD.
const bool registered = [] {
  rocksdb::ObjectLibrary::Default()->AddFactory<FileSystem>(rocksdb::ObjectLibrary::PatternEntry("shingle-record", false).AddSeparator("://", false), Make);
  return true;
}();

}  // namespace
}  // namespace shingle
