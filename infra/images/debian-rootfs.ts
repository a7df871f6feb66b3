/**
 * A root directory from Debian packages, for hosts without a registry. apt resolves against an empty system
 * and downloads with the host's sources, keys and mirror; dpkg-deb unpacks. Only the packages' Python is
 * executed, by its own loader, so neither root nor chroot is needed.
 */
import { existsSync } from 'node:fs'
import { readdir, readFile, rm, symlink, writeFile, mkdir, cp, chmod, appendFile } from 'node:fs/promises'
import { dirname, join, relative } from 'node:path'
import { SURROUNDINGS, type ImageSize } from '@cofferdam/contract'
import { exists, run } from './command.ts'
import { mergeUsr } from './merge-usr.ts'
import { AGENT_DIRECTORY, DEBIAN_PACKAGES, NSSWITCH } from './recipe.ts'

/** Why no root directory can be built here and what to do; null if it can. */
export async function whyNoDebian(): Promise<string | null> {
  for (const command of ['apt-get', 'dpkg-deb', 'tar'])
    if (!(await exists(command))) return `${command} is not installed: this way needs Debian or Ubuntu.`
  return null
}

/** The codename of the host's own release, which its apt sources serve. */
export async function debianSuite(): Promise<string> {
  const release = await readFile('/etc/os-release', 'utf8').catch(() => '')
  return /^VERSION_CODENAME=(\S+)$/m.exec(release)?.[1] ?? 'unknown'
}

/**
 * Fills `root`, an empty directory. `scratch`: directory for downloads; `agent`: directory of the guest
 * agent; `npm`: directory of the npm package; `node`: the binary to copy. Throws with the failing command's
 * output.
 */
export async function makeDebianRoot(paths: {
  root: string
  scratch: string
  agent: string
  npm: string
  node: string
  size: ImageSize
}): Promise<void> {
  const { root, scratch, size } = paths
  const archives = await downloadPackages(scratch, DEBIAN_PACKAGES[size])
  for (const archive of archives) await run('dpkg-deb', ['-x', archive, root])
  await mergeUsr(root)
  await configure(root)
  await removeUseless(root, size)
  for (const [path, target] of Object.entries(SURROUNDINGS.links)) {
    await mkdir(dirname(join(root, path)), { recursive: true })
    await symlink(target, join(root, path))
  }
  await cp(paths.node, join(root, 'usr/bin/node'))
  // 33 of 150 MB are symbols. Without binutils they cannot be removed.
  if (await exists('strip')) await run('strip', [join(root, 'usr/bin/node')])
  await placeNpm(root, paths.npm)
  await cp(paths.agent, join(root, AGENT_DIRECTORY), { recursive: true })
  await compilePython(root, [AGENT_DIRECTORY])
  await run('chmod', ['-R', 'a=rX', join(root, AGENT_DIRECTORY)])
  await run('find', [root, '-xdev', '-type', 'f', '-perm', '/6000', '-exec', 'chmod', 'a-s', '{}', '+'])
}

/** scipy depends on a Python compiler, which needs C++ and its headers: 400 MB that no program needs here. */
const OF_COMPILERS =
  /^(?:[\w.+-]+-dev|binutils[\w.-]*|(?:g\+\+|gcc|cpp)(?:-\d+)?|python3-pythran|lib(?:a|l|t|ub)san\d+)_/

/** Downloads packages with all that they need. Returns the archives in a fixed order. */
export async function downloadPackages(scratch: string, packages: readonly string[]): Promise<string[]> {
  const archives = join(scratch, 'archives')
  const lists = join(scratch, 'lists')
  await mkdir(join(archives, 'partial'), { recursive: true })
  await mkdir(join(lists, 'partial'), { recursive: true })
  const status = join(scratch, 'status')
  await writeFile(status, '')
  const apt = (where: string[], ...args: string[]): Promise<string> =>
    run('apt-get', [
      '-qq',
      ...[
        `Dir::State::status=${status}`,
        `Dir::Cache::archives=${archives}`,
        `Dir::Cache::pkgcache=${join(scratch, 'pkgcache.bin')}`,
        `Dir::Cache::srcpkgcache=${join(scratch, 'srcpkgcache.bin')}`,
        'Debug::NoLocking=true',
        'APT::Install-Recommends=false',
        // apt downloads as the caller, because its sandbox user cannot write into a directory that only the
        // caller can read.
        'APT::Sandbox::User=',
        ...where,
      ].flatMap((option) => ['-o', option]),
      ...args,
    ])
  const install = (where: string[]): Promise<string> =>
    apt(where, '--download-only', '--yes', 'install', ...packages)
  try {
    await install([])
  } catch {
    // This host has no package lists, or stale ones: fetch fresh ones, apart from the system's.
    const own = [`Dir::State::lists=${lists}`]
    await apt(own, 'update')
    await install(own)
  }
  const names = (await readdir(archives)).filter((name) => name.endsWith('.deb') && !OF_COMPILERS.test(name))
  return names.toSorted().map((name) => join(archives, name))
}

/** Does the necessary parts of the packages' own scripts. */
async function configure(root: string): Promise<void> {
  const at = (path: string): string => join(root, path)
  await writeFile(
    at('etc/passwd'),
    'root:x:0:0:root:/root:/usr/sbin/nologin\nnobody:x:65534:65534:sandbox:/tmp:/bin/bash\n',
  )
  await writeFile(at('etc/group'), 'root:x:0:\nnogroup:x:65534:\n')
  await writeFile(at('etc/nsswitch.conf'), NSSWITCH)
  await writeFile(at('etc/localtime'), await readFile(at('usr/share/zoneinfo/Etc/UTC')))
  const links: Record<string, string> = {
    'usr/bin/sh': 'dash',
    'usr/bin/awk': 'mawk',
    'usr/bin/python': 'python3',
  }
  // Debian calls the program `which.debianutils`, and a package script makes the link to it.
  if (existsSync(at('usr/bin/which.debianutils'))) links['usr/bin/which'] = 'which.debianutils'
  for (const [path, target] of Object.entries(links)) {
    await rm(at(path), { force: true })
    await symlink(target, at(path))
  }
  // Links numpy's linear algebra libraries, as a package script in Debian does.
  for (const name of await readdir(at('usr/lib')))
    if (name.endsWith('-linux-gnu'))
      for (const library of ['blas', 'lapack'])
        await symlink(`${library}/lib${library}.so.3`, at(`usr/lib/${name}/lib${library}.so.3`))
  await trustCertificates(root)
  await makeMountPoints(root)
}

/** Puts the certificates of the package `ca-certificates` into the one file that programs read. */
export async function trustCertificates(root: string): Promise<void> {
  await mkdir(join(root, 'etc/ssl/certs'), { recursive: true })
  const certificates = join(root, 'usr/share/ca-certificates/mozilla')
  for (const name of (await readdir(certificates)).toSorted())
    await appendFile(
      join(root, 'etc/ssl/certs/ca-certificates.crt'),
      await readFile(join(certificates, name)),
    )
}

/** Makes the folders that an engine mounts, and /tmp. */
export async function makeMountPoints(root: string): Promise<void> {
  for (const path of ['tmp', 'proc', 'sys', 'dev']) await mkdir(join(root, path), { recursive: true })
  await chmod(join(root, 'tmp'), 0o1777)
}

/** Puts npm where Node's own packages install it, so that `npm root -g` and `npx` agree. */
async function placeNpm(root: string, npm: string): Promise<void> {
  await cp(npm, join(root, 'usr/lib/node_modules/npm'), { recursive: true })
  for (const name of ['npm', 'npx'])
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(root, 'usr/bin', name))
}

async function removeUseless(root: string, size: ImageSize): Promise<void> {
  const useless = [
    'usr/share/doc',
    'usr/share/man',
    'usr/share/info',
    'usr/share/locale',
    'usr/share/lintian',
    'usr/share/debconf',
    'usr/share/gcc',
    'usr/share/zoneinfo/right',
    'usr/share/zoneinfo/posix',
    'usr/share/ca-certificates',
    'usr/share/unicode',
    'usr/share/bash-completion',
    'usr/share/bug',
    'var',
    'boot',
    'home',
    'media',
    'mnt',
    'srv',
    'opt',
  ]
  // Removes the modules for other character sets. libc has UTF-8 built in.
  for (const name of await readdir(join(root, 'usr/lib')))
    if (name.endsWith('-linux-gnu')) useless.push(`usr/lib/${name}/gconv`)
  useless.push(...(await uselessPython(root)))
  // Removes Debian's Perl modules, which only rare git commands need.
  if (size === 'slim') useless.push('usr/share/perl5')
  for (const path of useless) await rm(join(root, path), { recursive: true, force: true })
}

/**
 * Lists the tests of the data packages (70 MB), which nothing imports, and Debian's mark that pip must not
 * change the interpreter. The mark is useless: the image's root is read-only, and executions install into
 * their work directory.
 */
async function uselessPython(root: string): Promise<string[]> {
  const paths: string[] = []
  for (const name of await readdir(join(root, 'usr/lib')))
    if (/^python3\.\d+$/.test(name)) paths.push(`usr/lib/${name}/EXTERNALLY-MANAGED`)
  const packages = 'usr/lib/python3/dist-packages'
  for (const name of ['matplotlib', 'numpy', 'pandas', 'scipy'].filter((one) =>
    existsSync(join(root, packages, one)),
  ))
    for (const entry of await readdir(join(root, packages, name), { recursive: true, withFileTypes: true }))
      if (entry.isDirectory() && entry.name === 'tests')
        paths.push(join(relative(root, entry.parentPath), entry.name))
  return paths
}

/**
 * Compiles all Python in the root and in the folders `more` to byte code, with the root's own Python. Python
 * will not compare it with the sources, because the image never changes.
 */
export async function compilePython(root: string, more: readonly string[] = []): Promise<void> {
  const names = await readdir(join(root, 'usr/lib'))
  const python = names.find((name) => /^python3\.\d+$/.test(name))
  const triplet = names.find((name) => name.endsWith('-linux-gnu'))
  if (python === undefined || triplet === undefined) throw new Error('the packages brought no Python')
  const libraries = join(root, 'usr/lib', triplet)
  const loader = (await readdir(libraries)).find((name) => name.startsWith('ld-linux'))
  if (loader === undefined) throw new Error('the packages brought no dynamic loader')
  const found = [`usr/lib/${python}`, 'usr/lib/python3/dist-packages', ...more.map((path) => path.slice(1))]
  const directories = found.filter((path) => existsSync(join(root, path)))
  const options = [
    // -B: otherwise the modules that compileall itself imports would get byte code with this build's paths
    // and times.
    '-I -B -m compileall -q --invalidation-mode unchecked-hash'.split(' '),
    // Tracebacks show paths inside the image. Invalid Python in test data is skipped.
    ['-s', root, '-p', '/', '-x', '/(test|tests|lib2to3)/'],
  ]
  await run(
    join(libraries, loader),
    [
      '--library-path',
      libraries,
      join(root, 'usr/bin', python),
      ...options.flat(),
      ...directories.map((path) => join(root, path)),
    ],
    { env: { PYTHONHOME: join(root, 'usr'), PATH: '/usr/bin:/bin' } },
  )
}
