/* mounts.c - see mounts.h. */
#include "formats/io/mounts.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct vc_mount *mounts;
static struct vc_virtual_file *files;

void vc_mount_add(struct vc_mount *mount)
{
    (void)pthread_mutex_lock(&mutex);
    mount->next = mounts;
    mounts = mount;
    (void)pthread_mutex_unlock(&mutex);
}

void vc_mount_drop(struct vc_mount *mount)
{
    (void)pthread_mutex_lock(&mutex);
    for (struct vc_mount **at = &mounts; *at != NULL; at = &(*at)->next) {
        if (*at == mount) {
            *at = mount->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&mutex);
}

const char *vc_mount_path(const char *path, char buffer[PATH_MAX])
{
    const char *found = path;

    (void)pthread_mutex_lock(&mutex);
    for (const struct vc_mount *mount = mounts; mount != NULL && found == path; mount = mount->next) {
        size_t n = strlen(mount->name);

        if (strncmp(path, mount->name, n) == 0 && (path[n] == '\0' || path[n] == '/')) {
            int length = snprintf(buffer, PATH_MAX, "%s%s", mount->folder, path + n);

            found = length > 0 && length < PATH_MAX ? buffer : path;
        }
    }
    (void)pthread_mutex_unlock(&mutex);
    return found;
}

void vc_virtual_add(struct vc_virtual_file *file)
{
    (void)pthread_mutex_lock(&mutex);
    file->next = files;
    files = file;
    (void)pthread_mutex_unlock(&mutex);
}

void vc_virtual_drop(struct vc_virtual_file *file)
{
    (void)pthread_mutex_lock(&mutex);
    for (struct vc_virtual_file **at = &files; *at != NULL; at = &(*at)->next) {
        if (*at == file) {
            *at = file->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&mutex);
}

const struct vc_virtual_file *vc_virtual_find(const struct stat *st)
{
    const struct vc_virtual_file *file;

    (void)pthread_mutex_lock(&mutex);
    for (file = files; file != NULL && (file->device != st->st_dev || file->inode != st->st_ino); file = file->next) {
    }
    (void)pthread_mutex_unlock(&mutex);
    return file;
}
