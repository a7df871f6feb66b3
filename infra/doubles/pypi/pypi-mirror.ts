/** A PyPI simple API (PEP 503, 658, 691) on loopback, with distributions from memory. */
import { createHash } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import { listen, type MirrorServer } from '@cofferdam/backend-remote/double'
import type { Distribution } from './python-package.ts'

export interface PypiMirrorOptions {
  port?: number
  distributions: readonly Distribution[]
  /** HTML only, like older mirrors. */
  htmlOnly?: boolean
  /** Bytes to serve instead of a file's own, with unchanged digest, like a hacked mirror. */
  tampered?: ReadonlyMap<string, Buffer>
}

export interface PypiMirror extends MirrorServer {
  /** Index URL for pip. */
  url: string
}

const normalized = (name: string): string => name.toLowerCase().replaceAll(/[-_.]+/g, '-')
const sha256 = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex')
/** The project name is the part before the first hyphen, because names in this double contain none. */
const projectOf = (filename: string): string => normalized(filename.split('-')[0] ?? '')

export async function startPypiMirror(options: PypiMirrorOptions): Promise<PypiMirror> {
  const { distributions, tampered = new Map<string, Buffer>() } = options
  const byName = new Map(distributions.map((distribution) => [distribution.filename, distribution]))

  const sendFile = (response: ServerResponse, asked: string): void => {
    const isMetadata = asked.endsWith('.metadata')
    const found = byName.get(isMetadata ? asked.slice(0, -'.metadata'.length) : asked)
    const bytes = isMetadata ? found?.metadata : (tampered.get(asked) ?? found?.bytes)
    if (bytes === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'content-length': bytes.length }).end(bytes)
  }
  const server = await listen(options.port ?? 0, (request, response) => {
    const [, top, name = ''] = (request.url ?? '').split('/').map((part) => decodeURIComponent(part))
    const files = distributions.filter(({ filename }) => projectOf(filename) === normalized(name))
    if (top === 'files') sendFile(response, name)
    else if (top !== 'simple' || files.length === 0) response.writeHead(404).end()
    else if (options.htmlOnly !== true && (request.headers.accept ?? '').includes('simple.v1+json'))
      send(response, 'application/vnd.pypi.simple.v1+json', jsonPage(name, files))
    else send(response, 'text/html', htmlPage(files))
  })
  return Object.assign(server, { url: `http://127.0.0.1:${server.port}/simple/` })
}

function send(response: ServerResponse, type: string, body: string): void {
  response.writeHead(200, { 'content-type': type }).end(body)
}

function jsonPage(name: string, files: readonly Distribution[]): string {
  return JSON.stringify({
    meta: { 'api-version': '1.0' },
    name: normalized(name),
    files: files.map((file) => ({
      filename: file.filename,
      url: `../../files/${file.filename}`,
      hashes: { sha256: sha256(file.bytes) },
      ...(file.requiresPython === undefined ? {} : { 'requires-python': file.requiresPython }),
      'core-metadata': file.metadata === undefined ? false : { sha256: sha256(file.metadata) },
    })),
  })
}

function htmlPage(files: readonly Distribution[]): string {
  const anchors = files.map((file) => {
    const python =
      file.requiresPython === undefined
        ? ''
        : ` data-requires-python="${file.requiresPython.replaceAll('<', '&lt;').replaceAll('>', '&gt;')}"`
    const metadata =
      file.metadata === undefined ? '' : ` data-dist-info-metadata="sha256=${sha256(file.metadata)}"`
    return `<a href="../../files/${file.filename}#sha256=${sha256(file.bytes)}"${python}${metadata}>${file.filename}</a><br/>`
  })
  return `<!DOCTYPE html><html><body>${anchors.join('\n')}</body></html>`
}
