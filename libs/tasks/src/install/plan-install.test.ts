/** Which package manager installs a project, and with which command. */
import { describe, expect, it } from 'vitest'
import { projectInMemory, shellOf } from '../../test/project-in-memory.ts'
import { NO_PACKAGES } from './package-access.ts'
import { planInstall } from './plan-install.ts'

describe('an install', () => {
  const all = { packages: { pypi: ['*'], npm: ['*'] } }
  const access = {
    unavailable: () => null,
    environment: () => ({ PIP_INDEX_URL: 'http://packages/simple/' }),
    redirectLock: (text: string) => text.replaceAll('https://registry.example/', 'http://packages/npm/'),
    seen: () => NO_PACKAGES,
  }
  const install = (names: string[], asked: object = {}, tenant = all) =>
    planInstall(
      { type: 'install', ...asked },
      projectInMemory(Object.fromEntries(names.map((name) => [name, '']))),
      tenant,
      access,
    )

  it.each([
    [['requirements.txt', 'package.json'], 'pip', 'pip install -r requirements.txt'],
    [['pyproject.toml'], 'pip', 'pip install .'],
    [['package.json', 'package-lock.json'], 'npm', 'npm ci'],
    [['package.json'], 'npm', 'npm install'],
    [['package.json', 'yarn.lock'], 'yarn', 'yarn install --frozen-lockfile'],
    [['package.json', 'pnpm-lock.yaml', 'package-lock.json'], 'pnpm', 'pnpm install --frozen-lockfile'],
  ])('of the files %j uses %s', async (names, manager, shown) => {
    expect(await install(names)).toMatchObject({ manager, shown })
  })

  it('uses the package manager and the folder of the request', async () => {
    expect(await install(['package.json'], { manager: 'yarn' })).toMatchObject({ shown: 'yarn install' })
    const below = await install(['app/requirements.txt'], { path: 'app' })
    expect(shellOf(below)).toMatch(/cd -- app .*--target \.\.\/\.packages -r requirements\.txt$/s)
    expect(shellOf(below)).toContain('export PIP_INDEX_URL=http://packages/simple/')
  })

  it.each([
    ['yarn.lock', '# yarn lockfile v1\n', 'yarn install --frozen-lockfile', 'yarn@1'],
    ['yarn.lock', '__metadata:\n  version: 6\n', 'yarn install --no-immutable', '@yarnpkg/cli-dist@3'],
    ['yarn.lock', '__metadata:\n  version: 8\n', 'yarn install --no-immutable', '@yarnpkg/cli-dist@4'],
    ['pnpm-lock.yaml', "lockfileVersion: '9.0'\n", 'pnpm install --frozen-lockfile', 'pnpm@10'],
    ['pnpm-lock.yaml', "lockfileVersion: '6.0'\n", 'pnpm install --frozen-lockfile', 'pnpm@9'],
  ])('of %s with %j runs %s, with %s fetched if it is missing', async (name, text, shown, fetched) => {
    const files = projectInMemory({ 'package.json': '', [name]: text })
    const planned = await planInstall({ type: 'install' }, files, all, access)
    expect(planned.shown).toBe(shown)
    expect(shellOf(planned)).toContain(`exec npx --yes --package ${fetched} ${planned.manager} install`)
  })

  it('uses the proxy of the sandbox, whatever the project’s .npmrc says', async () => {
    expect(shellOf(await install(['package.json']))).toContain('export npm_config_proxy="$HTTP_PROXY" ')
    expect(shellOf(await install(['requirements.txt']))).not.toContain('npm_config_proxy')
  })

  it('uses the yarn in the sandbox only if it can read the lock file', async () => {
    const shell = async (text: string): Promise<string> =>
      shellOf(await planInstall({ type: 'install' }, projectInMemory({ 'yarn.lock': text }), all, access))
    expect(await shell('# yarn lockfile v1\n')).toContain(
      'in 1.*) exec yarn install --frozen-lockfile --non-interactive;; esac',
    )
    expect(await shell('__metadata:\n  version: 8\n')).toContain(
      'in [2-9].*) exec yarn install --no-immutable;; esac',
    )
  })

  it.each(['yarn.lock', 'pnpm-lock.yaml'])(
    'with %s uses the package proxy, and restores the lock file',
    async (name) => {
      const own = 'resolved "https://registry.example/a/-/a-1.0.0.tgz"\n'
      const moved = 'resolved "http://packages/npm/a/-/a-1.0.0.tgz"\n'
      const files = { 'app/package.json': '', [`app/${name}`]: own }
      const { lock } = await planInstall(
        { type: 'install', path: 'app' },
        projectInMemory(files),
        all,
        access,
      )
      expect(lock?.file).toEqual({ path: `app/${name}`, bytes: Buffer.from(moved) })
      const restored = async (left: string): Promise<unknown[]> => {
        const calls: unknown[] = []
        await lock?.restore({
          read: (asked: string) => Promise.resolve((calls.push(asked), Buffer.from(left))),
          write: (files: unknown) => Promise.resolve(void calls.push(files)),
        })
        return calls
      }
      const at = `app/${name}`
      // `restore` reads the file once more, because a sandbox may delay a write until the next request.
      expect(await restored(moved)).toEqual([at, [{ path: at, bytes: Buffer.from(own) }], at])
      expect(await restored('changed by the install')).toEqual([at])
      const here = await planInstall({ type: 'install' }, projectInMemory({ [name]: moved }), all, access)
      expect(here.lock).toBeNull()
    },
  )

  it('is refused with a reason when there is no manifest, no rule or no mirror', async () => {
    await expect(install(['main.py'])).rejects.toMatchObject({
      reason: 'no_manifest',
      message: expect.stringContaining('requirements.txt'),
    })
    const onlyNpm = { packages: { pypi: [], npm: ['*'] } }
    await expect(install(['requirements.txt'], {}, onlyNpm)).rejects.toMatchObject({
      ending: 'policy_denied',
      message: expect.stringContaining('packages.pypi'),
    })
    const files = projectInMemory({ 'package.json': '' })
    await expect(planInstall({ type: 'install' }, files, all, null)).rejects.toMatchObject({
      ending: 'provisioning',
      reason: 'packages_unavailable',
    })
    const noMirror = { ...access, unavailable: () => 'no mirror is configured' }
    await expect(planInstall({ type: 'install' }, files, all, noMirror)).rejects.toThrow(
      'no mirror is configured',
    )
  })
})
