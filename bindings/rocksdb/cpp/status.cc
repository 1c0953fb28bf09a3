#include "status.h"

namespace shingle {

using rocksdb::IOStatus;

IOStatus StatusOf(int result, const std::string& path, const Message& message) {
  if (result == SHINGLE_OK) {
    return IOStatus::OK();
  }
  const std::string text = message.str();
  IOStatus status;
  switch (result) {
    case SHINGLE_NOT_FOUND:
    case SHINGLE_NOT_DIRECTORY:
      status = IOStatus::PathNotFound(path, text);
      break;
    case SHINGLE_NO_SPACE:
      // RocksDB goes on by itself once there is room.
      status = IOStatus::NoSpace(path, text);
      status.SetRetryable(true);
      status.SetScope(IOStatus::kIOErrorScopeFileSystem);
      return status;
    case SHINGLE_CORRUPT:
      status = IOStatus::Corruption(path, text);
      status.SetDataLoss(true);
      break;
    case SHINGLE_DEVICE:
      status = IOStatus::IOError(path, text);
      status.SetRetryable(true);
      break;
    case SHINGLE_LOCKED:
      // RocksDB's own file system tells a lock that another has in the same way.
      status = IOStatus::IOError("lock " + path, text);
      break;
    case SHINGLE_INVALID:
      status = IOStatus::InvalidArgument(path, text);
      break;
    case SHINGLE_READ_ONLY:
    case SHINGLE_UNAVAILABLE:
      status = IOStatus::IOError(path, text);
      status.SetScope(IOStatus::kIOErrorScopeFileSystem);
      return status;
    default:
      status = IOStatus::IOError(path, text);
      break;
  }
  status.SetScope(IOStatus::kIOErrorScopeFile);
  return status;
}

}  // namespace shingle
