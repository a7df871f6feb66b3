/** The Node.js that npm installs with this repository, which images get. */
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

/** The pinned Node for this architecture, as installed by npm; null if this host is not Linux. */
export function nodeBinary(): string | null {
  try {
    const manifest = createRequire(import.meta.url).resolve(`node-linux-${process.arch}/package.json`)
    return process.platform === 'linux' ? join(dirname(manifest), 'bin', 'node') : null
  } catch {
    return null
  }
}

/** Its version; `none` where npm installed none. */
export function nodeVersion(): string {
  try {
    const manifest: { version: string } = createRequire(import.meta.url)(
      `node-linux-${process.arch}/package.json`,
    )
    return manifest.version
  } catch {
    return 'none'
  }
}
