/* A database of ordered keys on the files of a zoned drive, which another thread of the caller serves: the metadata of `blue-store` in RocksDB.
 * docs/rocksdb.md tells more. Results and texts are those of files.h.
 */
#ifndef SHINGLE_KEYS_H
#define SHINGLE_KEYS_H

#include "shingle/files.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Version of these functions: the caller and the library must have the same. */
enum { SHINGLE_KEYS_VERSION = 1 };
uint32_t shingle_keys_version(void);

typedef struct shingle_keys shingle_keys;

/* Takes bytes that are only there during the call. */
typedef void (*shingle_bytes)(void *context, const void *bytes, size_t length);
/* Gives `result` the value that a key has after a merge; `value` is NULL if it has none before. Comes from any thread. */
typedef void (*shingle_merge)(void *operators, const void *key, size_t key_length, const void *value, size_t value_length, const void *operand, size_t operand_length,
                              shingle_bytes result, void *context);

typedef struct {
  int socket;            /* One end of a pair, at whose other end the files are served. It is the library's now. */
  const char *path;      /* Directory of the database. It is made if it is not there. */
  bool read_only;        /* Nothing is written. */
  uint64_t cache_bytes;  /* Memory for blocks of tables. */
  uint64_t buffer_bytes; /* Memory for keys that are not in tables yet. */
  uint64_t table_bytes;  /* Size of a table. */
  shingle_merge merge;
  void *operators; /* The first argument of merges. */
} shingle_keys_options;

int shingle_keys_open(const shingle_keys_options *options, shingle_keys **keys, char **message);
/* SHINGLE_NOT_FOUND if there is no such key. */
int shingle_keys_get(shingle_keys *keys, const void *key, size_t key_length, shingle_bytes value, void *context, char **message);
/* Gives `pair` a key, then its value, up to `limit` times: those from `from` on and before `to`, or from the last one backward. */
int shingle_keys_scan(shingle_keys *keys, const void *from, size_t from_length, const void *to, size_t to_length, bool backward, size_t limit,
                      shingle_bytes pair, void *context, char **message);
/* Makes changes durable, all of them or none. Each is a kind (0 a value, 1 a key is gone, 2 keys from the first on and before the second are gone, 3 a
 * merge), two lengths of four bytes, little-endian, and the bytes of key and value. */
int shingle_keys_write(shingle_keys *keys, const void *changes, size_t length, char **message);
void shingle_keys_close(shingle_keys *keys);

#ifdef __cplusplus
}
#endif
#endif
