/** The npm registry protocol on loopback: full and abbreviated packuments, and tarballs from memory. */
import { listen, type MirrorServer } from '@cofferdam/backend-remote/double'
import { integrityOf, shasumOf, type Tarball } from './npm-package.ts'

export interface NpmMirrorOptions {
  port?: number
  /** The last tarball of a name in this list is its `latest`. */
  tarballs: readonly Tarball[]
  /** Bytes to serve instead of a tarball's own, by `name@version`, with unchanged integrity. */
  tampered?: ReadonlyMap<string, Buffer>
}

export interface NpmMirror extends MirrorServer {
  /** Registry URL for npm. */
  url: string
}

export async function startNpmMirror(options: NpmMirrorOptions): Promise<NpmMirror> {
  const { tarballs, tampered = new Map<string, Buffer>() } = options
  const server = await listen(options.port ?? 0, (request, response) => {
    const path = decodeURIComponent((request.url ?? '/').slice(1))
    const [name = '', file] = path.split('/-/')
    const versions = tarballs.filter(({ manifest }) => manifest.name === name)
    const one = versions.find(({ manifest }) => file === `${manifest.version}.tgz`)
    if (one !== undefined) {
      const bytes = tampered.get(`${name}@${one.manifest.version}`) ?? one.bytes
      response.writeHead(200, { 'content-length': bytes.length }).end(bytes)
    } else if (versions.length === 0 || file !== undefined)
      response.writeHead(404, { 'content-type': 'application/json' }).end('{"error":"Not found"}')
    else {
      const isAbbreviated = (request.headers.accept ?? '').includes('application/vnd.npm.install-v1+json')
      const type = isAbbreviated ? 'application/vnd.npm.install-v1+json' : 'application/json'
      const host = request.headers.host ?? ''
      response.writeHead(200, { 'content-type': type }).end(packument(name, versions, host, isAbbreviated))
    }
  })
  return Object.assign(server, { url: `http://127.0.0.1:${server.port}/` })
}

function packument(name: string, versions: readonly Tarball[], host: string, isAbbreviated: boolean): string {
  const entries = versions.map(({ manifest, bytes }) => [
    manifest.version,
    {
      ...manifest,
      dist: {
        integrity: integrityOf(bytes),
        shasum: shasumOf(bytes),
        tarball: `http://${host}/${name}/-/${manifest.version}.tgz`,
      },
    },
  ])
  const time = versions.map(({ manifest }) => [manifest.version, '2024-01-01T00:00:00.000Z'])
  return JSON.stringify({
    name,
    'dist-tags': { latest: versions.at(-1)?.manifest.version },
    versions: Object.fromEntries(entries),
    modified: '2024-01-01T00:00:00.000Z',
    ...(isAbbreviated ? {} : { time: Object.fromEntries(time) }),
  })
}
