/** The bill of materials of the fleet's image as CycloneDX: npm's own for the lockfile, and Debian's packages. */
import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { run } from '../command.ts'

interface Component {
  'bom-ref': string
  type: string
  name: string
  version: string
  purl: string
  hashes?: { alg: string; content: string }[]
}

/** A document of CycloneDX, as far as it is used here. */
export interface Sbom {
  bomFormat: 'CycloneDX'
  specVersion: string
  metadata: Record<string, unknown>
  components: Component[]
  [field: string]: unknown
}

/**
 * The document, always the same for the same input. `app`: the folder of makeApp; `archives`: the packages of
 * Debian; `created`: the time in it.
 */
export async function makeSbom(app: string, archives: readonly string[], created: string): Promise<Sbom> {
  const told = await run('npm', ['sbom', '--sbom-format=cyclonedx', '--omit=dev', '--package-lock-only'], {
    cwd: app,
  })
  const { serialNumber: _random, ...sbom } = JSON.parse(told) as Sbom
  const debian = await Promise.all(archives.map(debianComponent))
  return {
    ...sbom,
    metadata: { ...sbom.metadata, timestamp: created },
    components: [...sbom.components, ...debian],
  }
}

async function debianComponent(archive: string): Promise<Component> {
  const field = async (name: string): Promise<string> =>
    (await run('dpkg-deb', ['--field', archive, name])).trim()
  const [name, version, architecture] = await Promise.all(['Package', 'Version', 'Architecture'].map(field))
  const purl = `pkg:deb/debian/${name}@${encodeURIComponent(version ?? '')}?arch=${architecture}`
  const content = createHash('sha256')
    .update(await readFile(archive))
    .digest('hex')
  return {
    'bom-ref': purl,
    type: 'library',
    name: name ?? '',
    version: version ?? '',
    purl,
    hashes: [{ alg: 'SHA-256', content }],
  }
}
