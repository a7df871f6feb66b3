/** The two parts of the fleet's image: a small Debian, and Cofferdam with what it depends on. */
import { existsSync } from 'node:fs'
import { cp, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { run } from '../command.ts'
import { compilePython, downloadPackages, makeMountPoints, trustCertificates } from '../debian-rootfs.ts'
import { mergeUsr } from '../merge-usr.ts'
import type { Installed } from './sbom.ts'

/** The user of all processes, as in infra/compose/Dockerfile and in the chart. */
export const FLEET_USER = 10_001

/**
 * Node needs libatomic1 and libstdc++6. The process backend isolates with python3 and bubblewrap.
 * Certificates are for rediss:// and webhooks. The dispatcher unpacks skills with unzip. A shell is for an
 * operator.
 */
const PACKAGES = [
  'base-files',
  'bubblewrap',
  'ca-certificates',
  'coreutils',
  'dash',
  'libatomic1',
  'libc-bin',
  'libstdc++6',
  'netbase',
  'python3',
  'tzdata',
  'unzip',
]

/** The parts of the repository that the image gets. Tests, and files that git does not know, are left out. */
const SOURCES = [
  'package.json',
  'package-lock.json',
  '.npmrc',
  'apps',
  'libs',
  'infra/compose',
  'infra/doubles',
]
const IS_LEFT_OUT = /\.test\.ts$|(?:^|\/)test\//
const PAGES = 'apps/dashboard/dist'

/** Fills `root` with Debian's packages. Returns their archives in a fixed order. */
export async function makeSystem(root: string, scratch: string): Promise<string[]> {
  const archives = await downloadPackages(scratch, PACKAGES)
  for (const archive of archives) await run('dpkg-deb', ['-x', archive, root])
  await mergeUsr(root)
  const at = (path: string): string => join(root, path)
  await writeFile(
    at('etc/passwd'),
    'root:x:0:0:root:/root:/usr/sbin/nologin\n' +
      `cofferdam:x:${FLEET_USER}:${FLEET_USER}:Cofferdam:/app:/usr/sbin/nologin\n` +
      'nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n',
  )
  await writeFile(at('etc/group'), `root:x:0:\ncofferdam:x:${FLEET_USER}:\nnogroup:x:65534:\n`)
  await writeFile(at('etc/nsswitch.conf'), 'passwd: files\ngroup: files\nhosts: files dns\n')
  await rm(at('usr/bin/sh'), { force: true })
  await run('ln', ['-s', 'dash', at('usr/bin/sh')])
  await trustCertificates(root)
  for (const path of ['doc', 'man', 'info', 'locale', 'lintian', 'ca-certificates', 'bug'])
    await rm(at(`usr/share/${path}`), { recursive: true, force: true })
  for (const path of ['var', 'boot', 'home', 'media', 'mnt', 'srv', 'opt'])
    await rm(at(path), { recursive: true, force: true })
  await makeMountPoints(root)
  await compilePython(root)
  // A set-id bit is useless where no process may gain rights.
  await run('find', [root, '-xdev', '-type', 'f', '-perm', '/6000', '-exec', 'chmod', 'a-s', '{}', '+'])
  return archives
}

/**
 * Fills `app` with the sources that git knows, the built pages of the dashboard, and the packages of the
 * lockfile. Returns what npm installed.
 */
export async function makeApp(app: string, repository: string): Promise<Installed> {
  const listed = await run('git', ['-C', repository, 'ls-files', '-z', '--', ...SOURCES])
  for (const path of listed.split('\0')) {
    if (path === '' || IS_LEFT_OUT.test(path) || !existsSync(join(repository, path))) continue
    await mkdir(dirname(join(app, path)), { recursive: true })
    await cp(join(repository, path), join(app, path))
  }
  if (!existsSync(join(repository, PAGES, 'index.html')))
    throw new Error('the pages of the dashboard are not built; run `npm run dashboard` first')
  await cp(join(repository, PAGES), join(app, PAGES), { recursive: true })
  // Scripts stay off, as allowScripts in package.json says. The lockfile has the digest of every package.
  const flags = '--omit=dev --include=optional --ignore-scripts --prefer-offline --no-audit --loglevel=error'
  await run('npm', ['ci', ...flags.split(' ')], { cwd: app })
  const list = join(app, 'node_modules/.package-lock.json')
  const { packages } = JSON.parse(await readFile(list, 'utf8')) as { packages: Installed }
  await rm(list)
  await keepOnlyNode(app)
  return packages
}

/** Removes the headers and documentation from the package with Node. They are a quarter of it. */
async function keepOnlyNode(app: string): Promise<void> {
  const folder = join(app, `node_modules/node-linux-${process.arch}`)
  for (const name of await readdir(folder))
    if (name !== 'bin' && name !== 'package.json' && name !== 'LICENSE')
      await rm(join(folder, name), { recursive: true })
}
