/**
 * An image of a virtual machine whose first process obeys programs. A program thereby has the power of one
 * that broke out of its namespaces and became root in its machine. Only the machine itself still isolates it.
 */
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { findImage, guestFiles, IMAGE_CACHE, IMAGE_FILES } from '@cofferdam/backend-microvm/image'
import { cpio } from '../../infra/images/microvm/initramfs.ts'

/**
 * The lines that start the guest's first process (vm_init.py). `OBEY` is inserted before them and replaces
 * `start_agent`.
 */
const BEGIN = '\ntry:\n    main()\n'
/** Runs what programs send to a socket, as root, outside of all namespaces, with the machine's channels. */
const OBEY = `
honest_start = start_agent


def start_agent(told, port):
    files = {int(name): "/proc/self/fd/" + name for name in os.listdir("/proc/self/fd")}
    serial = [fd for fd, path in files.items() if os.path.realpath(path).startswith("/dev/vport")]
    if os.fork() == 0:
        obey(port, *(fd for fd in serial if fd != port))
    return honest_start(told, port)


def obey(port, control):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\\0root")
    listener.listen()
    while True:
        peer, _ = listener.accept()
        source = peer.makefile().read()
        if os.fork() == 0:
            try:
                exec(source, {**globals(), "peer": peer, "port": port, "control": control})
                peer.sendall(b"done")
            except BaseException as error:
                peer.sendall(repr(error).encode())
            os._exit(0)
        peer.close()
`

export interface HostileImage extends Disposable {
  /** For the setting `image_dir`. */
  folder: string
  /** The files of the host that the machines read. */
  files: readonly string[]
}

/** Null where this machine has no image to start from. */
export async function makeHostileImage(): Promise<HostileImage | null> {
  const honest = await findImage(IMAGE_CACHE, 'slim')
  if (honest === null) return null
  const init =
    guestFiles()
      .find(({ name }) => name === 'vm_init.py')
      ?.bytes.toString('utf8') ?? ''
  if (!init.includes(BEGIN)) throw new Error('vm_init.py begins in another way than this file expects')
  const folder = mkdtempSync(join(tmpdir(), 'cofferdam-hostile-'))
  const image = join(folder, 'image')
  mkdirSync(image)
  for (const name of [IMAGE_FILES.kernel, IMAGE_FILES.root])
    symlinkSync(join(honest.folder, name), join(image, name))
  // The kernel unpacks archives one after the other, and a later file replaces an earlier one.
  const hostile = Buffer.from(init.replace(BEGIN, `${OBEY}${BEGIN}`))
  const later = cpio([{ path: 'vm_init.py', mode: 0o100644, bytes: hostile }])
  const archive = Buffer.concat([readFileSync(honest.initramfs), later])
  writeFileSync(join(image, IMAGE_FILES.initramfs), archive)
  const sha256 = { ...honest.manifest.sha256, initramfs: createHash('sha256').update(archive).digest('hex') }
  writeFileSync(join(image, 'manifest.json'), JSON.stringify({ ...honest.manifest, sha256 }))
  return {
    folder,
    files: Object.values(IMAGE_FILES).map((name) => join(image, name)),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  }
}
