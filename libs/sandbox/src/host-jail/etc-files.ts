/**
 * The /etc of a jail: stubs that name no user or host of this machine, and copies of public files that
 * interpreters and loaders read.
 */
import { readdir, readFile, readlink, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { SURROUNDINGS } from '@cofferdam/contract'
import type { Python } from './interpreters.ts'

const STUBS = {
  passwd: 'root:x:0:0:root:/:/usr/sbin/nologin\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n',
  group: 'root:x:0:\nnogroup:x:65534:\n',
  hosts: `127.0.0.1 localhost ${SURROUNDINGS.hostName}\n::1 localhost\n`,
  'nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
}

/**
 * Files of the host's /etc that Python, Node or the loader read at start; none is secret. localtime is left
 * out, so that local time is UTC in jails with this /etc.
 */
const COPIED = [
  'ld.so.cache',
  'mime.types',
  'ssl/openssl.cnf',
  'ssl/certs/ca-certificates.crt',
  'pki/tls/certs/ca-bundle.crt',
]
/** A bundle of certificates has 200-400 KB; a larger file is something else. */
const COPIED_MAX = 4 * 1024 * 1024

/** A file that is created once per host for all jails. */
export interface JailFile {
  /** Relative; in this module relative to /etc. */
  path: string
  content: string | Buffer
  /** True when the content is the target of a symbolic link. */
  isLink: boolean
}

/** Files of /etc with contents. Copies, because a bind costs 0.1 ms per start and shows its source. */
export async function etcFiles(python: Python): Promise<JailFile[]> {
  const files: JailFile[] = Object.entries(STUBS).map(([path, content]) => ({
    path,
    content,
    isLink: false,
  }))
  // Debian's Python reads its sitecustomize from here.
  const debian = `python${python.version.split('.').slice(0, 2).join('.')}`
  const own = await namesIn(join('/etc', debian))
  for (const path of [...COPIED, ...own.map((file) => `${debian}/${file}`)]) {
    const found = await stat(join('/etc', path)).catch(() => null)
    if (found?.isFile() !== true || found.size > COPIED_MAX) continue
    const content = await readFile(join('/etc', path)).catch(() => null)
    if (content !== null) files.push({ path, content, isLink: false })
  }
  // /usr/bin/awk and others in Debian are links to here, and from here to /usr.
  for (const name of await namesIn('/etc/alternatives')) {
    const target = await readlink(join('/etc/alternatives', name)).catch(() => '')
    if (/^\/usr\/(bin|sbin|lib)\//.test(target))
      files.push({ path: `alternatives/${name}`, content: target, isLink: true })
  }
  return files
}

const namesIn = (folder: string): Promise<string[]> => readdir(folder).catch((): string[] => [])
