/* Files of a zoned drive for C: directories, files that grow at their ends, locks. docs/rocksdb.md tells more.
 *
 * All calls may come from any thread, and block. The process that opens a drive first owns it; others reach it through that process.
 *
 * Each function that can fail returns SHINGLE_OK or a kind of error, and stores a text for a person in `*message` unless that is NULL; free it with
 * shingle_string_free(). Paths are UTF-8, end in a zero byte, and have at most 4096 bytes.
 */
#ifndef SHINGLE_FILES_H
#define SHINGLE_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of errors: what to do next. */
enum {
  SHINGLE_OK = 0,
  SHINGLE_NOT_FOUND = 1,     /* There is no such file or directory. */
  SHINGLE_EXISTS = 2,        /* The name is taken. */
  SHINGLE_IS_DIRECTORY = 3,  /* It is a directory, and the call is for files. */
  SHINGLE_NOT_DIRECTORY = 4, /* A part of the path is a file. */
  SHINGLE_NOT_EMPTY = 5,     /* The directory has entries. */
  SHINGLE_NO_SPACE = 6,      /* There is no room: remove files, and try again. */
  SHINGLE_CORRUPT = 7,       /* Stored bytes failed their check. Reading again does not help. */
  SHINGLE_DEVICE = 8,        /* The drive failed the command. Trying again may help. */
  SHINGLE_LOCKED = 9,        /* Another has the lock. */
  SHINGLE_READ_ONLY = 10,    /* The files were opened for reading alone. */
  SHINGLE_INVALID = 11,      /* The call makes no sense; the text says why. */
  SHINGLE_UNAVAILABLE = 12   /* The files have stopped, or their owner has ended. What was synced is not lost. */
};

/* Use of a file: decides about its zones, and the cost of a sync. */
enum { SHINGLE_OTHER = 0, SHINGLE_WAL = 1, SHINGLE_TABLE = 2, SHINGLE_MANIFEST = 3 };

/* Expected lifetime: files of one lifetime share zones. */
enum { SHINGLE_LIFE_NONE = 0, SHINGLE_LIFE_SHORT = 1, SHINGLE_LIFE_MEDIUM = 2, SHINGLE_LIFE_LONG = 3, SHINGLE_LIFE_EXTREME = 4 };

typedef struct shingle_files shingle_files;     /* Files of a drive. */
typedef struct shingle_writer shingle_writer;   /* A file that is being written, at its end. */
typedef struct shingle_reader shingle_reader;   /* A file that is being read. */
typedef struct shingle_pending shingle_pending; /* A read under way. */
typedef struct shingle_lock shingle_lock;       /* A lock on a path. */

/* A file. */
typedef struct {
  uint64_t serial;         /* Its number, which no other file of the drive ever has. */
  uint64_t size;           /* Bytes. */
  uint64_t modified_nanos; /* Since 1970. */
  uint32_t links;          /* Names that it has. */
  bool directory;          /* It is a directory; all else is zero. */
} shingle_about;

/* Room of a drive, in bytes. */
typedef struct {
  uint64_t store; /* Identity of the store of files. */
  uint64_t capacity_bytes;
  uint64_t free_bytes;
  uint64_t written_bytes; /* Of files, since the drive was opened. */
  uint64_t drive_bytes;   /* Written by the drive for them, those that cleaning copied included. */
} shingle_room;

void shingle_string_free(char *string);
/* A copy of a text, for shingle_string_free(). */
char *shingle_string_new(const char *text);

/* Opens the files of a drive: `file:PATH`, `dev:PATH`, each also with `#PARTITION`, or `uuid:STORE`. `cache_bytes` is the memory of the cache of tables. A
 * drive that this process has open already is shared. */
int shingle_files_open(const char *drive, uint64_t cache_bytes, shingle_files **files, char **message);
/* Files that are served at the other end of a socket, by a process or thread of the same build. The socket is the library's from now on. */
int shingle_files_of_socket(int socket, uint64_t cache_bytes, shingle_files **files, char **message);
/* Lets go of the files. With the last one, and the last file, of a process that owns the drive, the drive is closed. */
void shingle_files_close(shingle_files *files);

int shingle_create(shingle_files *files, const char *path, int kind, int lifetime, shingle_writer **writer, char **message);
int shingle_append_to(shingle_files *files, const char *path, shingle_writer **writer, char **message);
int shingle_open(shingle_files *files, const char *path, shingle_reader **reader, char **message);
int shingle_stat(shingle_files *files, const char *path, shingle_about *about, char **message);
/* Calls `entry` for each entry of a directory, in order of names. */
int shingle_list(shingle_files *files, const char *path, void (*entry)(void *context, const char *name, const shingle_about *about), void *context,
                 char **message);
int shingle_remove(shingle_files *files, const char *path, char **message);
int shingle_rename(shingle_files *files, const char *from, const char *to, char **message);
int shingle_link(shingle_files *files, const char *from, const char *to, char **message);
/* With `all`, makes also those above it, and is content with one that is there. */
int shingle_make_dir(shingle_files *files, const char *path, bool all, char **message);
int shingle_remove_dir(shingle_files *files, const char *path, char **message);
int shingle_lock_path(shingle_files *files, const char *path, shingle_lock **lock, char **message);
void shingle_unlock(shingle_lock *lock);
int shingle_room_of(shingle_files *files, shingle_room *room, char **message);
/* Calls `text` with the figures of the drive's files since they were opened, in the Prometheus text format. */
int shingle_metrics(shingle_files *files, void (*text)(void *context, const char *figures), void *context, char **message);

/* Appends take their place in the order of the calls. After a failure the file takes no more. */
int shingle_append(shingle_writer *writer, const void *bytes, size_t length, char **message);
/* Reads see all that was appended; it is written within some milliseconds. Does not wait for that. */
int shingle_flush(shingle_writer *writer, char **message);
/* Makes all that was appended durable. May run beside appends of another thread. */
int shingle_sync(shingle_writer *writer, char **message);
int shingle_truncate(shingle_writer *writer, uint64_t size, char **message);
uint64_t shingle_writer_size(const shingle_writer *writer);
uint64_t shingle_writer_serial(const shingle_writer *writer);
/* How large the file will be: a table of about a zone or more begins a zone. Reserves nothing. */
void shingle_expect(shingle_writer *writer, uint64_t bytes);
void shingle_set_lifetime(shingle_writer *writer, int lifetime);
/* What was appended is written, and durable some time later. */
void shingle_writer_close(shingle_writer *writer);

/* Reads up to `length` bytes at `offset`; `*done` tells how many there were: fewer at the end of the file. */
int shingle_read(const shingle_reader *reader, uint64_t offset, void *into, size_t length, size_t *done, char **message);
/* Begins to read at most 4 MiB. Bytes in memory are in `into` at once: all `length` of them, and `*pending` is NULL. */
int shingle_read_begin(const shingle_reader *reader, uint64_t offset, void *into, size_t length, shingle_pending **pending, char **message);
/* Waits for a read, and frees it. */
int shingle_read_wait(shingle_pending *pending, void *into, size_t length, size_t *done, char **message);
/* Frees a read that nobody waits for. */
void shingle_read_abandon(shingle_pending *pending);
uint64_t shingle_reader_serial(const shingle_reader *reader);
void shingle_reader_close(shingle_reader *reader);

#ifdef __cplusplus
}
#endif
#endif
