/**
 * Builds the image of API, worker and dispatcher without Docker and without a registry: `npm run image --
 * --fleet`. It needs npm, git, and apt of a Debian or Ubuntu. From the same commit, packages and tools, two
 * builds have the same ID.
 */
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { run } from '../command.ts'
import { whyNoDebian } from '../debian-rootfs.ts'
import { FLEET_USER, makeApp, makeSystem } from './fleet-root.ts'
import { writeImage } from './image-archive.ts'
import { makeSbom } from './sbom.ts'

const REPOSITORY = fileURLToPath(new URL('../../..', import.meta.url))
/** The chart and docker-compose.yml name it. */
const NAME = 'cofferdam:local'
/** Where the bill of materials is in the image. */
const SBOM = 'usr/share/cofferdam/sbom.cdx.json'

export interface FleetImage {
  /** The archive for `docker load`. */
  archive: string
  /** The bill of materials, which is in the image too. */
  sbom: string
  name: string
  /** The image's ID, which is a digest of its content. */
  id: string
}

/** Builds it into the folder `output`. Throws with what is missing. */
export async function buildFleetImage(options: {
  output: string
  say?: (line: string) => void
}): Promise<FleetImage> {
  const say = options.say ?? (() => {})
  const why = await whyNoDebian()
  if (why !== null) throw new Error(why)
  const { version } = JSON.parse(await readFile(join(REPOSITORY, 'package.json'), 'utf8')) as {
    version: string
  }
  const [revision = '', created = ''] = (
    await run(
      'git',
      ['-C', REPOSITORY, 'log', '-1', '--format=%H %cd', '--date=format-local:%Y-%m-%dT%H:%M:%SZ'],
      {
        env: { ...process.env, TZ: 'UTC' },
      },
    )
  )
    .trim()
    .split(' ')
  await mkdir(options.output, { recursive: true })
  const scratch = await mkdtemp(join(tmpdir(), 'cofferdam-fleet-image-'))
  try {
    const at = (path: string): string => join(scratch, path)
    for (const path of ['system', 'own/app', 'data/data']) await mkdir(at(path), { recursive: true })
    say('downloading and unpacking Debian packages')
    const archives = await makeSystem(at('system'), scratch)
    say('installing the packages of the lockfile')
    const installed = await makeApp(at('own/app'), REPOSITORY)
    say('writing the bill of materials')
    const sbom = JSON.stringify(await makeSbom({ installed, archives, created, version }), null, 2)
    await mkdir(dirname(at(`own/${SBOM}`)), { recursive: true })
    await writeFile(at(`own/${SBOM}`), sbom)
    await writeFile(join(options.output, 'cofferdam-fleet.cdx.json'), sbom)
    // Sets permissions that do not depend on the umask of this host.
    for (const path of ['system', 'own']) await run('chmod', ['-R', 'u=rwX,go=rX', at(path)])
    await run('chmod', ['1777', at('system/tmp')])
    await run('chmod', ['700', at('data/data')])
    say('writing the archive')
    const archive = join(options.output, 'cofferdam-fleet.tar')
    const id = await writeImage({
      layers: [{ folder: at('system') }, { folder: at('own') }, { folder: at('data'), owner: FLEET_USER }],
      config: {
        created,
        env: [
          'PATH=/app/node_modules/.bin:/usr/local/bin:/usr/bin:/bin',
          'LANG=C.UTF-8',
          'NODE_ENV=production',
          'NODE_COMPILE_CACHE=/tmp/node-compile-cache',
          'COFFERDAM_DATA_DIR=/data',
        ],
        // Without npm or a shell in front, signals reach the process itself.
        entrypoint: ['node', 'apps/cli/src/main.ts'],
        cmd: ['--help'],
        user: `${FLEET_USER}:${FLEET_USER}`,
        workingDir: '/app',
        volumes: ['/data'],
        labels: {
          'org.opencontainers.image.revision': revision,
          'org.opencontainers.image.version': version,
          'org.opencontainers.image.licenses': 'Apache-2.0',
        },
      },
      name: NAME,
      scratch,
      file: archive,
    })
    return { archive, sbom: join(options.output, 'cofferdam-fleet.cdx.json'), name: NAME, id }
  } finally {
    await rm(scratch, { recursive: true, force: true })
  }
}
