/**
 * Reads a PyPI project page from PEP 691 JSON or PEP 503 HTML, and writes a page in either form. Keeps only
 * the fields that pip uses.
 */
import { z } from 'zod'
import * as pep440 from '@renovatebot/pep440'
import { pypiName } from './package-rules.ts'

export interface SimpleFile {
  filename: string
  version: string
  url: URL
  hashes: Record<string, string>
  requiresPython: string | null
  /** PEP 658: digests of `<file>.metadata`. True: it exists without digests. False: it does not exist. */
  metadata: Record<string, string> | boolean
  /** Null when not yanked, else the reason, which may be empty. */
  yanked: string | null
}

export const SIMPLE_JSON = 'application/vnd.pypi.simple.v1+json'
export const SIMPLE_HTML = 'application/vnd.pypi.simple.v1+html'

const digests = z.record(z.string().regex(/^[a-z0-9_]{1,32}$/), z.string().regex(/^[0-9a-f]{1,256}$/))
const metadataField = z.union([z.boolean(), digests]).optional().catch(undefined)
const fileSchema = z.object({
  filename: z.string().max(512),
  url: z.string().max(4096),
  hashes: digests.catch({}),
  'requires-python': z.string().max(512).nullish().catch(null),
  'core-metadata': metadataField,
  'dist-info-metadata': metadataField,
  yanked: z.union([z.boolean(), z.string()]).optional().catch(undefined),
})
const pageSchema = z.object({ files: z.array(z.unknown()) })

/** The wheels and sdists of `project` on the page. Everything else is left out. */
export function readSimplePage(project: string, text: string, type: string, page: URL): SimpleFile[] {
  const raw = /json/i.test(type) ? jsonFiles(text) : htmlFiles(text, page)
  return raw.flatMap(({ filename, url, ...rest }) => {
    const version = versionOf(project, filename)
    return version === null || !URL.canParse(url, page.href)
      ? []
      : [{ filename, version, url: new URL(url, page), ...rest }]
  })
}

type RawFile = Omit<SimpleFile, 'url' | 'version'> & { url: string }

function jsonFiles(text: string): RawFile[] {
  return pageSchema.parse(JSON.parse(text)).files.flatMap((item) => {
    const parsed = fileSchema.safeParse(item)
    if (!parsed.success) return []
    const file = parsed.data
    const yanked = file.yanked ?? false
    return {
      filename: file.filename,
      url: file.url,
      hashes: file.hashes,
      requiresPython: file['requires-python'] ?? null,
      metadata: file['core-metadata'] ?? file['dist-info-metadata'] ?? false,
      yanked: typeof yanked === 'string' ? yanked : yanked ? '' : null,
    }
  })
}

/** Index pages have one anchor for each file (PEP 503). An anchor in another form is left out. */
function htmlFiles(text: string, page: URL): RawFile[] {
  const baseHref = /<base\s[^>]*href\s*=\s*["']([^"']*)["']/i.exec(text)?.[1]
  const base = baseHref !== undefined && URL.canParse(baseHref, page.href) ? new URL(baseHref, page) : page
  const anchors = text.matchAll(/<a\s((?:"[^"]*"|'[^']*'|[^'">])*)>/gi)
  return [...anchors].flatMap(([, inside = '']) => {
    const attributes = new Map(
      [...inside.matchAll(/([a-z-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'))?/gi)].map(
        ([, name = '', double, single]) => [name.toLowerCase(), decodeEntities(double ?? single ?? '')],
      ),
    )
    const href = attributes.get('href')
    if (href === undefined || !URL.canParse(href, base.href)) return []
    const url = new URL(href, base)
    const hash = digestOf(url.hash.slice(1))
    const metadata = attributes.get('data-core-metadata') ?? attributes.get('data-dist-info-metadata')
    url.hash = ''
    return {
      filename: decodePath(url.pathname.split('/').at(-1) ?? ''),
      url: url.href,
      hashes: hash ?? {},
      requiresPython: attributes.get('data-requires-python') ?? null,
      metadata: metadata === undefined ? false : (digestOf(metadata) ?? true),
      yanked: attributes.get('data-yanked') ?? null,
    }
  })
}

/** `sha256=…` as a record, or null. */
function digestOf(text: string): Record<string, string> | null {
  const [, name, value] = /^([a-z0-9_]{1,32})=([0-9a-f]{1,256})$/.exec(text) ?? []
  return name === undefined || value === undefined ? null : { [name]: value }
}

const ENTITIES: Record<string, string> = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
const decodeEntities = (text: string): string =>
  text.replaceAll(/&(?:#(\d{1,6})|#x([0-9a-f]{1,5})|([a-z]+));/gi, (whole, decimal, hex, name) => {
    if (name !== undefined) return ENTITIES[String(name).toLowerCase()] ?? whole
    const code = decimal === undefined ? Number.parseInt(String(hex), 16) : Number(decimal)
    return code <= 0x10_ff_ff ? String.fromCodePoint(code) : whole
  })

function decodePath(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return ''
  }
}

/** The version in a file name of `project` (wheels: PEP 427, sdists: PEP 625 and older), or null. */
export function versionOf(project: string, filename: string): string | null {
  if (!/^[A-Za-z0-9][A-Za-z0-9._+!-]*$/.test(filename)) return null
  if (filename.endsWith('.whl')) {
    const [name = '', version = '', ...tags] = filename.slice(0, -4).split('-')
    const isOurs = pypiName(name) === project && (tags.length === 3 || tags.length === 4)
    return isOurs ? (valid(version.replaceAll('_', '+')) ?? valid(version)) : null
  }
  const stem = /^(.*)\.(?:tar\.gz|tar\.bz2|tar\.xz|tgz|zip)$/.exec(filename)?.[1]
  if (stem === undefined) return null
  // Names may have hyphens, so split where the left side is the project.
  for (let at = stem.indexOf('-'); at !== -1; at = stem.indexOf('-', at + 1))
    if (pypiName(stem.slice(0, at)) === project) {
      const version = valid(stem.slice(at + 1))
      if (version !== null) return version
    }
  return null
}

const valid = (version: string): string | null => pep440.valid(version)

/** The page as PEP 691 JSON. `link` returns each file's address. */
export function simpleJson(
  project: string,
  files: readonly SimpleFile[],
  link: (file: SimpleFile) => string,
): string {
  return JSON.stringify({
    meta: { 'api-version': '1.0' },
    name: project,
    files: files.map((file) => ({
      filename: file.filename,
      url: link(file),
      hashes: file.hashes,
      ...(file.requiresPython === null ? {} : { 'requires-python': file.requiresPython }),
      // The old name of this field is left out, because pip 22.3 to 23.2 fails on it in JSON (PEP 714).
      'core-metadata': file.metadata,
      yanked: file.yanked === null ? false : file.yanked === '' ? true : file.yanked,
    })),
  })
}

const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')

/** The page as PEP 503 HTML. */
export function simpleHtml(
  project: string,
  files: readonly SimpleFile[],
  link: (file: SimpleFile) => string,
): string {
  const anchors = files.map((file) => {
    const [digest] = preferred(file.hashes)
    const [metadata] = typeof file.metadata === 'boolean' ? [] : preferred(file.metadata)
    const attributes = [
      `href="${escapeHtml(link(file) + (digest === undefined ? '' : `#${digest}`))}"`,
      file.requiresPython === null ? '' : ` data-requires-python="${escapeHtml(file.requiresPython)}"`,
      file.metadata === false ? '' : ` data-core-metadata="${metadata ?? 'true'}"`,
      file.metadata === false ? '' : ` data-dist-info-metadata="${metadata ?? 'true'}"`,
      file.yanked === null ? '' : ` data-yanked="${escapeHtml(file.yanked)}"`,
    ]
    return `<a ${attributes.join('')}>${escapeHtml(file.filename)}</a><br>`
  })
  return `<!DOCTYPE html>\n<html><head><meta name="pypi:repository-version" content="1.0"><title>Links for ${project}</title></head><body>\n${anchors.join('\n')}\n</body></html>\n`
}

/** Digests as `name=value`, with the one that pip prefers first. */
function preferred(hashes: Record<string, string>): string[] {
  return Object.entries(hashes)
    .sort(([a], [b]) => Number(b === 'sha256') - Number(a === 'sha256'))
    .map(([name, value]) => `${name}=${value}`)
}
