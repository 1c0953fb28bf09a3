#include "file_system.h"

#include <cstdlib>

#include "info_log.h"
#include "reading.h"
#include "status.h"
#include "writing.h"

namespace shingle {

using rocksdb::FileAttributes;
using rocksdb::FileLock;
using rocksdb::FileOptions;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

namespace {

constexpr char kScheme[] = "shingle://";
// Memory of the cache of tables, unless SHINGLE_ROCKSDB_CACHE_MIB says another number.
constexpr uint64_t kCacheMib = 256;
constexpr uint64_t kCacheMibMax = 1 << 20;
constexpr char kTestDirectory[] = "/rocksdbtest";
constexpr uint64_t kNanosPerSecond = 1000000000;

// A path without slashes that mean nothing: `/db//x/` is `/db/x`.
std::string Tidy(const std::string& path) {
  std::string tidy;
  for (const char c : path) {
    if (c != '/' || tidy.empty() || tidy.back() != '/') {
      tidy.push_back(c);
    }
  }
  if (tidy.size() > 1 && tidy.back() == '/') {
    tidy.pop_back();
  }
  return tidy;
}

IOStatus CacheBytes(uint64_t* bytes) {
  *bytes = kCacheMib << 20;
  const char* given = std::getenv("SHINGLE_ROCKSDB_CACHE_MIB");
  if (given == nullptr || *given == '\0') {
    return IOStatus::OK();
  }
  char* end = nullptr;
  const unsigned long long mib = std::strtoull(given, &end, 10);
  if (end == given || *end != '\0' || *given == '-' || mib > kCacheMibMax) {
    return IOStatus::InvalidArgument("SHINGLE_ROCKSDB_CACHE_MIB", "it is a number of MiB, 0 for no cache");
  }
  *bytes = static_cast<uint64_t>(mib) << 20;
  return IOStatus::OK();
}

// A call on one path.
template <typename Call>
IOStatus OnPath(const std::string& path, Call call) {
  Message message;
  const std::string tidy = Tidy(path);
  const int done = call(tidy.c_str(), message.out());
  return StatusOf(done, path, message);
}

// What a test for a file that may not be there answers.
IOStatus Plain(IOStatus status) { return status.IsPathNotFound() ? IOStatus::NotFound() : status; }

class Lock : public FileLock {
 public:
  explicit Lock(shingle_lock* lock) : lock_(lock) {}
  ~Lock() override { shingle_unlock(lock_); }

 private:
  shingle_lock* const lock_;
};

// Names are durable when their calls return.
class Directory : public rocksdb::FSDirectory {
 public:
  IOStatus Fsync(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
};

}  // namespace

IOStatus FileSystem::Open(const std::string& uri, std::unique_ptr<rocksdb::FileSystem>* result) {
  uint64_t cache = 0;
  IOStatus status = CacheBytes(&cache);
  if (!status.ok()) {
    return status;
  }
  const std::string drive = uri.rfind(kScheme, 0) == 0 ? uri.substr(sizeof(kScheme) - 1) : uri;
  shingle_files* opened = nullptr;
  Message message;
  const int done = shingle_files_open(drive.c_str(), cache, &opened, message.out());
  if (done != SHINGLE_OK) {
    return StatusOf(done, uri, message);
  }
  return Over(uri, opened, result);
}

IOStatus FileSystem::OnSocket(int socket, std::unique_ptr<rocksdb::FileSystem>* result) {
  shingle_files* opened = nullptr;
  Message message;
  const int done = shingle_files_of_socket(socket, 0, &opened, message.out());
  return done == SHINGLE_OK ? Over("shingle://socket", opened, result) : StatusOf(done, "socket", message);
}

IOStatus FileSystem::Over(const std::string& uri, shingle_files* opened, std::unique_ptr<rocksdb::FileSystem>* result) {
  FilesPtr files(opened, shingle_files_close);
  Message message;
  shingle_room room;
  const int done = shingle_room_of(files.get(), &room, message.out());
  if (done != SHINGLE_OK) {
    return StatusOf(done, uri, message);
  }
  result->reset(new FileSystem(uri, room.store, std::move(files)));
  return IOStatus::OK();
}

bool FileSystem::IsInstanceOf(const std::string& id) const { return id == uri_ || rocksdb::FileSystem::IsInstanceOf(id); }

IOStatus FileSystem::Stat(const std::string& path, shingle_about* about) const {
  return OnPath(path, [&](const char* tidy, char** message) { return shingle_stat(files_.get(), tidy, about, message); });
}

IOStatus FileSystem::NewSequentialFile(const std::string& path, const FileOptions&, std::unique_ptr<rocksdb::FSSequentialFile>* result, IODebugContext*) {
  result->reset();
  shingle_reader* reader = nullptr;
  IOStatus status = OnPath(path, [&](const char* tidy, char** message) { return shingle_open(files_.get(), tidy, &reader, message); });
  if (status.ok()) {
    result->reset(new SequentialFile(path, ReaderPtr(reader)));
  }
  return status;
}

IOStatus FileSystem::NewRandomAccessFile(const std::string& path, const FileOptions&, std::unique_ptr<rocksdb::FSRandomAccessFile>* result,
                                         IODebugContext*) {
  result->reset();
  shingle_reader* reader = nullptr;
  IOStatus status = OnPath(path, [&](const char* tidy, char** message) { return shingle_open(files_.get(), tidy, &reader, message); });
  if (status.ok()) {
    result->reset(new RandomAccessFile(path, store_, ReaderPtr(reader)));
  }
  return status;
}

IOStatus FileSystem::NewWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* result,
                                     IODebugContext*) {
  result->reset();
  shingle_writer* writer = nullptr;
  IOStatus status = OnPath(path, [&](const char* tidy, char** message) {
    return shingle_create(files_.get(), tidy, KindOf(path), SHINGLE_LIFE_NONE, &writer, message);
  });
  if (status.ok()) {
    result->reset(new WritableFile(path, store_, options, WriterPtr(writer)));
  }
  return status;
}

IOStatus FileSystem::ReopenWritableFile(const std::string& path, const FileOptions& options, std::unique_ptr<rocksdb::FSWritableFile>* result,
                                        IODebugContext* dbg) {
  result->reset();
  shingle_writer* writer = nullptr;
  IOStatus status = OnPath(path, [&](const char* tidy, char** message) { return shingle_append_to(files_.get(), tidy, &writer, message); });
  if (status.IsPathNotFound()) {
    return NewWritableFile(path, options, result, dbg);
  }
  if (status.ok()) {
    result->reset(new WritableFile(path, store_, options, WriterPtr(writer)));
  }
  return status;
}

IOStatus FileSystem::NewDirectory(const std::string& path, const IOOptions&, std::unique_ptr<rocksdb::FSDirectory>* result, IODebugContext*) {
  result->reset();
  shingle_about about;
  IOStatus status = Stat(path, &about);
  if (status.ok() && !about.directory) {
    return IOStatus::IOError(path, "it is a file, not a directory");
  }
  if (status.ok()) {
    result->reset(new Directory());
  }
  return status;
}

IOStatus FileSystem::FileExists(const std::string& path, const IOOptions&, IODebugContext*) {
  shingle_about about;
  return Plain(Stat(path, &about));
}

IOStatus FileSystem::GetChildren(const std::string& path, const IOOptions&, std::vector<std::string>* result, IODebugContext*) {
  result->clear();
  const auto entry = [](void* context, const char* name, const shingle_about*) { static_cast<std::vector<std::string>*>(context)->push_back(name); };
  return Plain(OnPath(path, [&](const char* tidy, char** message) { return shingle_list(files_.get(), tidy, entry, result, message); }));
}

IOStatus FileSystem::GetChildrenFileAttributes(const std::string& path, const IOOptions&, std::vector<FileAttributes>* result, IODebugContext*) {
  result->clear();
  const auto entry = [](void* context, const char* name, const shingle_about* about) {
    static_cast<std::vector<FileAttributes>*>(context)->push_back(FileAttributes{name, about->size});
  };
  return Plain(OnPath(path, [&](const char* tidy, char** message) { return shingle_list(files_.get(), tidy, entry, result, message); }));
}

IOStatus FileSystem::DeleteFile(const std::string& path, const IOOptions&, IODebugContext*) {
  return OnPath(path, [&](const char* tidy, char** message) { return shingle_remove(files_.get(), tidy, message); });
}

IOStatus FileSystem::Truncate(const std::string& path, size_t size, const IOOptions&, IODebugContext*) {
  return OnPath(path, [&](const char* tidy, char** message) {
    shingle_writer* writer = nullptr;
    const int opened = shingle_append_to(files_.get(), tidy, &writer, message);
    const WriterPtr owned(writer);
    return opened != SHINGLE_OK ? opened : shingle_truncate(writer, size, message);
  });
}

IOStatus FileSystem::CreateDir(const std::string& path, const IOOptions&, IODebugContext*) {
  return OnPath(path, [&](const char* tidy, char** message) { return shingle_make_dir(files_.get(), tidy, false, message); });
}

IOStatus FileSystem::CreateDirIfMissing(const std::string& path, const IOOptions&, IODebugContext*) {
  return OnPath(path, [&](const char* tidy, char** message) { return shingle_make_dir(files_.get(), tidy, true, message); });
}

IOStatus FileSystem::DeleteDir(const std::string& path, const IOOptions&, IODebugContext*) {
  return OnPath(path, [&](const char* tidy, char** message) { return shingle_remove_dir(files_.get(), tidy, message); });
}

IOStatus FileSystem::GetFileSize(const std::string& path, const IOOptions&, uint64_t* size, IODebugContext*) {
  shingle_about about;
  IOStatus status = Stat(path, &about);
  *size = status.ok() ? about.size : 0;
  return status;
}

IOStatus FileSystem::GetFileModificationTime(const std::string& path, const IOOptions&, uint64_t* time, IODebugContext*) {
  shingle_about about;
  IOStatus status = Stat(path, &about);
  *time = status.ok() ? about.modified_nanos / kNanosPerSecond : 0;
  return status;
}

IOStatus FileSystem::RenameFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) {
  return OnPath(from, [&](const char* tidy, char** message) { return shingle_rename(files_.get(), tidy, Tidy(to).c_str(), message); });
}

IOStatus FileSystem::LinkFile(const std::string& from, const std::string& to, const IOOptions&, IODebugContext*) {
  return OnPath(from, [&](const char* tidy, char** message) { return shingle_link(files_.get(), tidy, Tidy(to).c_str(), message); });
}

IOStatus FileSystem::NumFileLinks(const std::string& path, const IOOptions&, uint64_t* count, IODebugContext*) {
  shingle_about about;
  IOStatus status = Stat(path, &about);
  *count = status.ok() ? about.links : 0;
  return status;
}

IOStatus FileSystem::AreFilesSame(const std::string& first, const std::string& second, const IOOptions&, bool* same, IODebugContext*) {
  shingle_about one;
  shingle_about other;
  IOStatus status = Stat(first, &one);
  if (status.ok()) {
    status = Stat(second, &other);
  }
  if (status.ok()) {
    *same = one.directory || other.directory ? Tidy(first) == Tidy(second) : one.serial == other.serial;
  }
  return status;
}

IOStatus FileSystem::LockFile(const std::string& path, const IOOptions&, FileLock** lock, IODebugContext*) {
  *lock = nullptr;
  shingle_lock* taken = nullptr;
  IOStatus status = OnPath(path, [&](const char* tidy, char** message) { return shingle_lock_path(files_.get(), tidy, &taken, message); });
  if (status.ok()) {
    *lock = new Lock(taken);
  }
  return status;
}

IOStatus FileSystem::UnlockFile(FileLock* lock, const IOOptions&, IODebugContext*) {
  delete lock;
  return IOStatus::OK();
}

IOStatus FileSystem::NewLogger(const std::string& path, const IOOptions&, std::shared_ptr<rocksdb::Logger>* result, IODebugContext*) {
  shingle_writer* writer = nullptr;
  IOStatus status = OnPath(path, [&](const char* tidy, char** message) {
    return shingle_create(files_.get(), tidy, SHINGLE_OTHER, SHINGLE_LIFE_NONE, &writer, message);
  });
  if (status.ok()) {
    *result = std::make_shared<InfoLog>(files_, Tidy(path), WriterPtr(writer));
  }
  return status;
}

IOStatus FileSystem::GetTestDirectory(const IOOptions& options, std::string* path, IODebugContext* dbg) {
  const char* given = std::getenv("TEST_TMPDIR");
  *path = given != nullptr && *given != '\0' ? given : kTestDirectory;
  return CreateDirIfMissing(*path, options, dbg);
}

IOStatus FileSystem::GetAbsolutePath(const std::string& path, const IOOptions&, std::string* absolute, IODebugContext*) {
  *absolute = !path.empty() && path.front() == '/' ? path : "/" + path;
  return IOStatus::OK();
}

IOStatus FileSystem::GetFreeSpace(const std::string& path, const IOOptions&, uint64_t* free, IODebugContext*) {
  shingle_room room{};
  IOStatus status = OnPath(path, [&](const char*, char** message) { return shingle_room_of(files_.get(), &room, message); });
  *free = room.free_bytes;
  return status;
}

IOStatus FileSystem::IsDirectory(const std::string& path, const IOOptions&, bool* is, IODebugContext*) {
  shingle_about about;
  IOStatus status = Stat(path, &about);
  *is = status.ok() && about.directory;
  return status;
}

IOStatus FileSystem::Poll(std::vector<void*>& handles, size_t) { return PollReads(handles); }

IOStatus FileSystem::AbortIO(std::vector<void*>& handles) { return AbortReads(handles); }

FileOptions FileSystem::OptimizeForLogWrite(const FileOptions& options, const rocksdb::DBOptions& db_options) const {
  FileOptions optimized = rocksdb::FileSystem::OptimizeForLogWrite(options, db_options);
  optimized.use_direct_writes = false;
  optimized.use_mmap_writes = false;
  return optimized;
}

FileOptions FileSystem::OptimizeForManifestWrite(const FileOptions& options) const {
  FileOptions optimized = rocksdb::FileSystem::OptimizeForManifestWrite(options);
  optimized.use_direct_writes = false;
  optimized.use_mmap_writes = false;
  return optimized;
}

}  // namespace shingle
