// Each result of the C interface as RocksDB's: which error, whether trying again may help, whether data are lost, how far it reaches. RocksDB decides by these whether a
// database goes on by itself, or is to be opened again. Needs no drive: it is linked with bindings/rocksdb/cpp/status.cc alone.

#include "status.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

using rocksdb::IOStatus;

extern "C" char* shingle_string_new(const char* text) { return strdup(text); }
extern "C" void shingle_string_free(char* text) { free(text); }

namespace {

constexpr auto kFile = IOStatus::kIOErrorScopeFile;
constexpr auto kAll = IOStatus::kIOErrorScopeFileSystem;

struct Row {
  int result;
  IOStatus::Code code;
  IOStatus::SubCode sub_code;
  bool retryable;
  bool data_loss;
  IOStatus::IOErrorScope scope;
};

const Row kRows[] = {
    {SHINGLE_NOT_FOUND, IOStatus::kIOError, IOStatus::kPathNotFound, false, false, kAll},
    {SHINGLE_EXISTS, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
    {SHINGLE_IS_DIRECTORY, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
    {SHINGLE_NOT_DIRECTORY, IOStatus::kIOError, IOStatus::kPathNotFound, false, false, kAll},
    {SHINGLE_NOT_EMPTY, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
    // A database waits until there is room, and goes on.
    {SHINGLE_NO_SPACE, IOStatus::kIOError, IOStatus::kNoSpace, true, false, kAll},
    // A database stops, as no later try brings the bytes back.
    {SHINGLE_CORRUPT, IOStatus::kCorruption, IOStatus::kNone, false, true, kAll},
    // A database tries again: other files, and the next command, may be fine.
    {SHINGLE_DEVICE, IOStatus::kIOError, IOStatus::kNone, true, false, kFile},
    {SHINGLE_LOCKED, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
    // A database stops, and nothing that was synced is lost: it is to be opened again.
    {SHINGLE_READ_ONLY, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
    {SHINGLE_INVALID, IOStatus::kInvalidArgument, IOStatus::kNone, false, false, kAll},
    {SHINGLE_UNAVAILABLE, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
    // A number of a later version.
    {SHINGLE_UNAVAILABLE + 1, IOStatus::kIOError, IOStatus::kNone, false, false, kAll},
};

}  // namespace

int main() {
  int wrong = 0;
  for (const Row& row : kRows) {
    shingle::Message message;
    *message.out() = shingle_string_new("why it failed");
    const IOStatus status = shingle::StatusOf(row.result, "/some/path", message);
    const bool same = status.code() == row.code && status.subcode() == row.sub_code && status.GetRetryable() == row.retryable &&
                      status.GetDataLoss() == row.data_loss && status.GetScope() == row.scope;
    const std::string text = status.ToString();
    if (!same || text.find("why it failed") == std::string::npos || text.find("/some/path") == std::string::npos) {
      fprintf(stderr, "result %d: %s, code %d, sub-code %d, retryable %d, data loss %d, scope %d\n", row.result, text.c_str(), status.code(), status.subcode(),
              status.GetRetryable(), status.GetDataLoss(), status.GetScope());
      ++wrong;
    }
  }
  if (!shingle::StatusOf(SHINGLE_OK, "/some/path", shingle::Message()).ok()) {
    fprintf(stderr, "success is an error\n");
    ++wrong;
  }
  return wrong == 0 ? 0 : 1;
}
