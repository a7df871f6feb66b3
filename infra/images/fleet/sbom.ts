/**
 * The bill of materials of the fleet's image as CycloneDX: what npm installed, and the packages of Debian.
 */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { run } from '../command.ts'

/** Packages by their folder, as a lockfile of npm lists them. */
export type Installed = Readonly<
  Record<string, { version?: string; name?: string; integrity?: string; license?: string; link?: boolean }>
>

interface Component {
  'bom-ref': string
  type: 'library'
  name: string
  version: string
  purl: string
  hashes?: { alg: string; content: string }[]
  licenses?: { license: { name: string } }[]
}

/** A document of CycloneDX 1.6, as far as it is used here. */
export interface Sbom {
  $schema: string
  bomFormat: 'CycloneDX'
  specVersion: '1.6'
  version: 1
  metadata: { timestamp: string; component: Pick<Component, 'name' | 'version'> & { type: 'container' } }
  components: Component[]
}

/**
 * The document, always the same for the same input. `archives`: the packages of Debian; `created`: the time
 * in it; `version`: that of the image.
 */
export async function makeSbom(input: {
  installed: Installed
  archives: readonly string[]
  created: string
  version: string
}): Promise<Sbom> {
  const npm = Object.entries(input.installed).flatMap(npmComponent)
  const debian = await Promise.all(input.archives.map(debianComponent))
  // One package can be in two folders.
  const all = new Map([...npm, ...debian].map((component) => [component.purl, component]))
  return {
    $schema: 'http://cyclonedx.org/schema/bom-1.6.schema.json',
    bomFormat: 'CycloneDX',
    specVersion: '1.6',
    version: 1,
    metadata: {
      timestamp: input.created,
      component: { type: 'container', name: 'cofferdam', version: input.version },
    },
    components: [...all.values()],
  }
}

function npmComponent([path, found]: [string, Installed[string]]): Component[] {
  const name = found.name ?? path.split('node_modules/').at(-1) ?? ''
  // A link is one of our own workspaces, which the bill of materials does not list.
  if (found.link === true || found.version === undefined || !path.includes('node_modules/')) return []
  const purl = `pkg:npm/${name.replace('@', '%40')}@${found.version}`
  const [, digest] = /^sha512-(\S+)/.exec(found.integrity ?? '') ?? []
  const hashes = digest && [{ alg: 'SHA-512', content: Buffer.from(digest, 'base64').toString('hex') }]
  return [
    {
      'bom-ref': purl,
      type: 'library',
      name,
      version: found.version,
      purl,
      ...(hashes ? { hashes } : {}),
      ...(found.license === undefined ? {} : { licenses: [{ license: { name: found.license } }] }),
    },
  ]
}

async function debianComponent(archive: string): Promise<Component> {
  const field = async (name: string): Promise<string> =>
    (await run('dpkg-deb', ['--field', archive, name])).trim()
  const [name = '', version = '', architecture = ''] = await Promise.all(
    ['Package', 'Version', 'Architecture'].map(field),
  )
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version)}?arch=${architecture}`
  const content = createHash('sha256')
    .update(await readFile(archive))
    .digest('hex')
  return { 'bom-ref': purl, type: 'library', name, version, purl, hashes: [{ alg: 'SHA-256', content }] }
}
