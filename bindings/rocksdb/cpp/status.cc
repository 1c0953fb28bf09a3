#include "status.h"

namespace shingle {

using rocksdb::IOStatus;

// As RocksDB's own file system has it, an error reaches as far as all files unless it says otherwise. RocksDB goes on behind errors of one file, even lost data: it writes
// the file again. So only errors that another try may mend are of one file.
IOStatus StatusOf(int result, const std::string& path, const Message& message) {
  if (result == SHINGLE_OK) {
    return IOStatus::OK();
  }
  const std::string text = message.str();
  IOStatus status;
  switch (result) {
    case SHINGLE_NOT_FOUND:
    case SHINGLE_NOT_DIRECTORY:
      return IOStatus::PathNotFound(path, text);
    case SHINGLE_NO_SPACE:
      // RocksDB goes on by itself once there is room.
      status = IOStatus::NoSpace(path, text);
      status.SetRetryable(true);
      return status;
    case SHINGLE_CORRUPT:
      // A database stops writing, rather than to merge a table without what it lost, or to try that for ever.
      status = IOStatus::Corruption(path, text);
      status.SetDataLoss(true);
      return status;
    case SHINGLE_DEVICE:
      status = IOStatus::IOError(path, text);
      status.SetRetryable(true);
      status.SetScope(IOStatus::kIOErrorScopeFile);
      return status;
    case SHINGLE_LOCKED:
      // RocksDB's own file system tells a lock that another has in the same way.
      return IOStatus::IOError("lock " + path, text);
    case SHINGLE_INVALID:
      return IOStatus::InvalidArgument(path, text);
    default:
      return IOStatus::IOError(path, text);
  }
}

}  // namespace shingle
