import { lstat, mkdir, rm, symlink } from 'node:fs/promises'
import { join } from 'node:path'
import { run } from './command.ts'

/**
 * Makes /bin, /sbin, /lib and /lib64 links into /usr, as Debian has them since bookworm, and moves files that
 * packages put there. Since trixie the package base-files has the links.
 */
export async function mergeUsr(root: string): Promise<void> {
  for (const name of ['bin', 'sbin', 'lib', 'lib64']) {
    await mkdir(join(root, 'usr', name), { recursive: true })
    const found = await lstat(join(root, name)).catch(() => null)
    if (found?.isSymbolicLink() === true) continue
    await mkdir(join(root, name), { recursive: true })
    await run('cp', ['-a', `${join(root, name)}/.`, join(root, 'usr', name)])
    await rm(join(root, name), { recursive: true })
    await symlink(`usr/${name}`, join(root, name))
  }
}
