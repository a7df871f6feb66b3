/** Creates real npm tarballs from a name, a version and a few files. */
import { createHash } from 'node:crypto'
import { gunzipSync } from 'node:zlib'
import { tarArchive } from '../tar-archive.ts'

export interface NpmPackage {
  name: string
  version: string
  dependencies?: Record<string, string>
  /** Content by path, without package.json. Default: an index.js that exports the version. */
  files?: Record<string, string>
}

export interface Tarball {
  manifest: Manifest
  bytes: Buffer
}

export interface Manifest {
  name: string
  version: string
}

function parseManifest(text: string): Manifest {
  const parsed: unknown = JSON.parse(text)
  const isManifest =
    typeof parsed === 'object' &&
    parsed !== null &&
    'name' in parsed &&
    'version' in parsed &&
    typeof parsed.name === 'string' &&
    typeof parsed.version === 'string'
  if (!isManifest) throw new Error('expected name and version in package.json')
  return parsed as Manifest
}

export function buildTarball({ name, version, dependencies, files }: NpmPackage): Tarball {
  const manifest = {
    name,
    version,
    main: 'index.js',
    ...(dependencies === undefined ? {} : { dependencies }),
  }
  const content = files ?? { 'index.js': `module.exports = ${JSON.stringify(version)}\n` }
  const tree = [['package.json', JSON.stringify(manifest)], ...Object.entries(content)] as [string, string][]
  return {
    manifest,
    bytes: tarArchive(new Map(tree.map(([path, text]) => [`package/${path}`, Buffer.from(text)]))),
  }
}

/** A packed tarball with the manifest found in it. Throws if there is none. */
export function readTarball(bytes: Buffer): Tarball {
  const tar = gunzipSync(bytes)
  for (let at = 0; at + 512 <= tar.length;) {
    const path = tar.toString('utf8', at, at + 100).replace(/\0.*$/s, '')
    const size = Number.parseInt(tar.toString('latin1', at + 124, at + 136), 8) || 0
    if (/^[^/]+\/package\.json$/.test(path))
      return { manifest: parseManifest(tar.toString('utf8', at + 512, at + 512 + size)), bytes }
    at += 512 + Math.ceil(size / 512) * 512
  }
  throw new Error('expected a package.json in the tarball')
}

export const integrityOf = (bytes: Buffer): string =>
  `sha512-${createHash('sha512').update(bytes).digest('base64')}`
export const shasumOf = (bytes: Buffer): string => createHash('sha1').update(bytes).digest('hex')
