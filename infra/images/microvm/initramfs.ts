/**
 * The first file system of a virtual machine: busybox, modules, a script that mounts the root, and its init.
 */
import type { Module } from './linux-kernel.ts'

const SCRIPT = (modules: readonly Module[]): string => `#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
${modules.map(({ name }) => `$b insmod /modules/${name}`).join('\n')}
n=0
until [ -b /dev/vda ] || [ $n -ge 500 ]; do n=$((n+1)); $b usleep 10000; done
$b mount -t erofs -o ro /dev/vda /new
$b mount --move /dev /new/dev
$b mount -t tmpfs run /new/run
$b cp /vm_*.py /new/run/
exec $b switch_root /new /usr/bin/python3 -I -S /run/vm_init.py
`

/** A file or folder of an archive. */
export interface Entry {
  path: string
  mode: number
  bytes: Buffer
  device?: readonly [major: number, minor: number]
}

const FOLDER = 0o040755
const PROGRAM = 0o100755
const FILE = 0o100644
const CHARACTERS = 0o020600

/**
 * Makes the archive. It is not compressed, because a virtual machine reads it from memory. Its init script
 * loads `modules` but not `spare`, and starts vm_init.py of `guest`.
 */
export function makeInitramfs(
  busybox: Buffer,
  guest: readonly { name: string; bytes: Buffer }[],
  modules: readonly Module[],
  spare: readonly Module[] = [],
): Buffer {
  const folder = (path: string): Entry => ({ path, mode: FOLDER, bytes: Buffer.alloc(0) })
  return cpio([
    ...['bin', 'dev', 'modules', 'new'].map(folder),
    // The kernel opens it for the first process before the script mounts /dev.
    { path: 'dev/console', mode: CHARACTERS, bytes: Buffer.alloc(0), device: [5, 1] },
    { path: 'bin/busybox', mode: PROGRAM, bytes: busybox },
    { path: 'init', mode: PROGRAM, bytes: Buffer.from(SCRIPT(modules)) },
    ...guest.map(({ name, bytes }) => ({ path: name, mode: FILE, bytes })),
    ...[...modules, ...spare].map(({ name, bytes }) => ({ path: `modules/${name}`, mode: FILE, bytes })),
  ])
}

/**
 * An archive of the format `newc`: a header of hexadecimal numbers, the name and the content, each padded to
 * four bytes.
 */
export function cpio(entries: readonly Entry[]): Buffer {
  const parts: Buffer[] = []
  const add = (entry: Entry, inode: number): void => {
    const name = Buffer.from(`${entry.path}\0`)
    const [major, minor] = entry.device ?? [0, 0]
    const fields = [inode, entry.mode, 0, 0, 1, 0, entry.bytes.length, 0, 0, major, minor, name.length, 0]
    const head = `070701${fields.map((field) => field.toString(16).padStart(8, '0')).join('')}`
    parts.push(padded(Buffer.concat([Buffer.from(head), name])), padded(entry.bytes))
  }
  entries.forEach((entry, index) => add(entry, index + 1))
  add({ path: 'TRAILER!!!', mode: 0, bytes: Buffer.alloc(0) }, 0)
  return Buffer.concat(parts)
}

const padded = (bytes: Buffer): Buffer => Buffer.concat([bytes, Buffer.alloc((4 - (bytes.length % 4)) % 4)])
