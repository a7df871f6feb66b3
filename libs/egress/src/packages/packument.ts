/** Reduces an npm packument to the versions that a tenant may install, with tarballs at our address. */
import semver from 'semver'
import { z } from 'zod'

const distSchema = z.looseObject({ tarball: z.string().max(4096) })
const packumentSchema = z.looseObject({
  name: z.string(),
  'dist-tags': z.record(z.string(), z.string()).catch({}),
  versions: z.record(z.string(), z.looseObject({ dist: distSchema })),
  time: z.record(z.string(), z.unknown()).optional().catch(undefined),
})

export interface Packument {
  allVersions: readonly string[]
  /** Tarball of each allowed version, by the file name at our address. */
  tarballs: ReadonlyMap<string, { version: string; url: URL }>
  /** What the package manager gets. */
  json: string
}

/** File name of a version's tarball, as the registry itself names it. */
export const tarballName = (name: string, version: string): string =>
  `${name.split('/').at(-1)}-${version}.tgz`

/**
 * Throws when `text` is not a packument of `name`. An install without a range asks for `latest`, so a
 * `latest` that is not allowed becomes the greatest allowed version. Other tags of refused versions are
 * removed.
 */
export function cutPackument(
  name: string,
  text: string,
  page: URL,
  allows: (version: string) => boolean,
  link: (version: string) => string,
): Packument {
  const whole = packumentSchema.parse(JSON.parse(text))
  if (whole.name !== name) throw new Error('the packument is of another package')
  const entries = Object.entries(whole.versions).filter(
    ([version, { dist }]) =>
      semver.valid(version) === version && allows(version) && URL.canParse(dist.tarball, page.href),
  )
  const allowed = entries.map(([version]) => version)
  const versions = Object.fromEntries(
    entries.map(([version, manifest]) => [
      version,
      { ...manifest, dist: { ...manifest.dist, tarball: link(version) } },
    ]),
  )
  const tags = Object.entries(whole['dist-tags']).filter(([, version]) => allowed.includes(version))
  const greatest = semver.maxSatisfying(allowed, '*') ?? semver.rsort([...allowed])[0]
  const latest =
    tags.some(([tag]) => tag === 'latest') || greatest === undefined ? [] : [['latest', greatest]]
  const { time, ...rest } = whole
  const kept = new Set(['created', 'modified', ...allowed])
  return {
    allVersions: Object.keys(whole.versions),
    tarballs: new Map(
      entries.map(([version, { dist }]) => [
        tarballName(name, version),
        { version, url: new URL(dist.tarball, page) },
      ]),
    ),
    json: JSON.stringify({
      ...rest,
      'dist-tags': Object.fromEntries([...tags, ...latest]),
      versions,
      ...(time === undefined
        ? {}
        : { time: Object.fromEntries(Object.entries(time).filter(([version]) => kept.has(version))) }),
    }),
  }
}
