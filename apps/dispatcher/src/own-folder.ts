/**
 * The folder of this process for skills and memories on their way between the control plane and sandboxes. A
 * process that was killed cannot remove its folder, so the next dispatcher of this user does:
 *
 *   made ─► its socket listens ─► used ─► disposed: removed
 *                                  └─► process killed: nobody listens ─► the next start removes it
 */
import { once } from 'node:events'
import { lstat, mkdtemp, readdir, rm } from 'node:fs/promises'
import { connect, createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PREFIX = 'cofferdam-dispatcher-'
/**
 * A live dispatcher listens on this socket. A process ID would not show this to a dispatcher in another
 * container.
 */
const SOCKET = 'alive'

export interface OwnFolder extends AsyncDisposable {
  path: string
}

/** Removes the folders of dead dispatchers, then makes one for this process, which nobody else can read. */
export async function openOwnFolder(): Promise<OwnFolder> {
  await removeForgotten()
  const path = await mkdtemp(join(tmpdir(), PREFIX))
  const server = createServer((caller) => caller.destroy())
  server.unref().listen(join(path, SOCKET))
  // The path may be too long for a socket. Then the folder stays if this process is killed.
  await once(server, 'listening').catch(() => undefined)
  return {
    path,
    async [Symbol.asyncDispose]() {
      server.close()
      await rm(path, { recursive: true, force: true })
    },
  }
}

async function removeForgotten(): Promise<void> {
  const names = (await readdir(tmpdir())).filter((name) => name.startsWith(PREFIX))
  for (const name of names) {
    const path = join(tmpdir(), name)
    if ((await isOurs(path)) && (await isForgotten(path))) await rm(path, { recursive: true, force: true })
  }
}

/**
 * Whether it is a folder of this user, and not a link. Other users may put anything into the shared temporary
 * folder.
 */
async function isOurs(path: string): Promise<boolean> {
  const found = await lstat(path).catch(() => null)
  return found?.isDirectory() === true && found.uid === process.getuid?.()
}

/**
 * Whether its dispatcher no longer listens. A folder without a socket does not count: its dispatcher may just
 * be starting.
 */
async function isForgotten(path: string): Promise<boolean> {
  const socket = connect(join(path, SOCKET))
  try {
    await once(socket, 'connect')
    return false
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ECONNREFUSED'
  } finally {
    socket.destroy()
  }
}
