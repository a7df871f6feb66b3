/**
 * A small program in the session that answers what the API of sessions does not tell about files: the type of
 * a path, folders, links, and whether a removed file was there. It is in Python, because every sandbox has
 * Python for the fleet's own agent. It runs as an execution, so it is charged, and the tenant's rules for
 * commands apply.
 */
import { CofferdamError } from '@cofferdam/client'
import type { CommandResult } from './command-result.ts'

export type FileType = 'file' | 'directory' | 'symlink' | 'other'

export interface FileStat {
  /** Links are followed, so it is never `symlink`. */
  type: Exclude<FileType, 'symlink'>
  size: number
  /** The path without links. */
  real: string
}

export interface FileAnswers {
  stat: FileStat | null
  list: { name: string; type: FileType }[] | null
  remove: boolean
  /** Base64. For files that the API does not reach, outside of the work folder. */
  read: string | null
  /** The path of the folder without links. It is made if it was missing, with its parents. */
  folder: string
  /** False when there is no such file. */
  mode: boolean
}

/** `kind` names the operation on the absolute `path`. `mode` has the bits that the kind `mode` sets. */
export interface FileQuestion<K extends keyof FileAnswers = keyof FileAnswers> {
  kind: K
  path: string
  mode?: number
}

/**
 * The most entries that are listed of a folder. A larger folder is an error, because an agent would read a
 * part as the whole.
 */
const ENTRIES_MAX = 20_000

const PROGRAM = `
import base64, errno, itertools, json, os, stat, sys
ask = json.loads(sys.argv[1])
path, kind = ask["path"], ask["kind"]
def type_of(mode):
    if stat.S_ISLNK(mode): return "symlink"
    if stat.S_ISDIR(mode): return "directory"
    return "file" if stat.S_ISREG(mode) else "other"
def fail(code, words): raise OSError(code, words, path)
def answer():
    if kind == "folder":
        os.makedirs(path, exist_ok=True)
        return os.path.realpath(path)
    if kind == "stat":
        found = os.stat(path)
        return {"type": type_of(found.st_mode), "size": found.st_size, "real": os.path.realpath(path)}
    if kind == "list":
        names = []
        with os.scandir(path) as entries:
            for entry in itertools.islice(entries, ${ENTRIES_MAX} + 1):
                name = os.fsencode(entry.name).decode("utf-8", "replace")
                names.append({"name": name, "type": type_of(entry.stat(follow_symlinks=False).st_mode)})
        if len(names) > ${ENTRIES_MAX}: fail(errno.EOVERFLOW, "more than ${ENTRIES_MAX} entries")
        return names
    if kind == "remove":
        if stat.S_ISDIR(os.lstat(path).st_mode): fail(errno.EISDIR, "Is a directory")
        os.unlink(path)
        return True
    if kind == "mode":
        os.chmod(path, ask["mode"])
        return True
    found = os.stat(path)
    if not stat.S_ISREG(found.st_mode): fail(errno.EINVAL, "Not a regular file")
    if found.st_size > 8 << 20: fail(errno.EFBIG, "Larger than 8 MiB")
    with open(path, "rb") as file: return base64.b64encode(file.read(8 << 20)).decode()
try: said = {"answer": answer()}
except OSError as error:
    absent = kind != "folder" and error.errno in (errno.ENOENT, errno.ENOTDIR)
    nothing = False if kind in ("remove", "mode") else None
    said = {"answer": nothing} if absent else {"failure": "%s: %s" % (path, error.strerror)}
print(json.dumps(said))
`

/** The command that answers `question`. */
export const fileCommand = (question: FileQuestion): { type: 'command'; argv: string[] } => ({
  type: 'command',
  argv: ['python3', '-I', '-S', '-c', PROGRAM, JSON.stringify(question)],
})

/**
 * Reads the answer. Throws `invalid_request` with the system's message when the operation fails on the path,
 * and `internal` when the program did not answer.
 */
export function fileAnswer<K extends keyof FileAnswers>(result: CommandResult): FileAnswers[K] {
  const said = parsed(result.stdout)
  if ('answer' in said) return said.answer as FileAnswers[K]
  if (said.failure !== undefined) throw new CofferdamError('invalid_request', said.failure)
  throw new CofferdamError(
    'internal',
    `The sandbox did not tell about a file: ${result.stderr.slice(-500)}`,
    {
      retry: 'never',
      details: { execution_id: result.executionId },
    },
  )
}

/** Parses what the program printed. Empty if it is not an object, because a sandbox may print anything. */
function parsed(text: string): { answer?: unknown; failure?: string } {
  try {
    const said: unknown = JSON.parse(text)
    return typeof said === 'object' && said !== null ? said : {}
  } catch {
    return {}
  }
}
