/** Tarball addresses of yarn's and pnpm's lock files, which neither moves to the registry that it is given. */
import { PACKAGE_HOST } from './create-package-proxy.ts'

/** `…/name/-/file.tgz`, as every registry has it, behind whatever path a registry has of its own. */
const TARBALL =
  /\bhttps?:\/\/[^\s"'#,}]*?\/((?:@[^\s"'#,}/]+(?:\/|%2f))?[^\s"'#,}/@]+\/-\/[^\s"'#,}/]+\.tgz)/gi

/**
 * The lock file with the tarballs of its registries at the package proxy, and everything else as it is: its digests, and what
 * comes from other places (git hosts, addresses written in package.json).
 */
export const redirectLock = (text: string): string =>
  text.replaceAll(TARBALL, (_whole, path: string) => `http://${PACKAGE_HOST}/npm/${path}`)
