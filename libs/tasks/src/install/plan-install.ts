/**
 * Turns a request to install into a command. The first of these manifests in the folder decides:
 *
 *   requirements.txt → pip · pnpm-lock.yaml → pnpm · yarn.lock → yarn
 *   package-lock.json or npm-shrinkwrap.json → npm ci · package.json → npm install
 *   pyproject.toml → pip
 *
 * Python packages go to `.packages` in the work directory, which test runs put on PYTHONPATH. node_modules is
 * beside its package.json. Both are files of the session, so its later executions find them. If the image
 * lacks pnpm or yarn, or its yarn uses another lock file format, npx fetches one through the same proxy and
 * the same rules.
 */
import {
  PACKAGE_MANAGERS,
  type PackageManager,
  type Program,
  type Sandbox,
  type TenantPolicy,
} from '@cofferdam/contract'
import { isBerry, pnpmFor, readNodeLock, yarnFor, type RedirectedLock } from './node-lock.ts'
import type { PackageAccess, PackageRegistry } from './package-access.ts'
import { quoted } from '../shell-quote.ts'
import { TaskRefusal } from '../task-refusal.ts'

/** Where an install puts Python packages. */
export const PYTHON_PACKAGES_FOLDER = '.packages'

export interface InstallPlan {
  manager: PackageManager
  /** The command that the caller sees. */
  shown: string
  program: Program
  /** The lock file to use during the install. Null when the project's own file needs no change. */
  lock: RedirectedLock | null
}

type Install = Extract<Program, { type: 'install' }>

const MANIFESTS = [
  ['requirements.txt', 'pip'],
  ['pnpm-lock.yaml', 'pnpm'],
  ['yarn.lock', 'yarn'],
  ['package-lock.json', 'npm'],
  ['npm-shrinkwrap.json', 'npm'],
  ['package.json', 'npm'],
  ['pyproject.toml', 'pip'],
] as const satisfies [string, PackageManager][]

const registryOf = (manager: PackageManager): PackageRegistry => (manager === 'pip' ? 'pypi' : 'npm')

/**
 * Throws TaskRefusal if no sandbox could fetch packages for the program. A program that names no package
 * manager may use any of them, so it is refused only if no manager could fetch packages.
 */
export function refusePackages(
  program: Program,
  tenant: Pick<TenantPolicy, 'packages'>,
  access: PackageAccess | null,
): void {
  const asked = program.type === 'install' ? program.manager : undefined
  const managers = asked === undefined ? PACKAGE_MANAGERS : [asked]
  const refusals = managers.map((manager) => refusalOf(registryOf(manager), tenant, access))
  const first = refusals[0]
  if (first != null && refusals.every((refusal) => refusal !== null)) throw first
}

function refusalOf(
  registry: PackageRegistry,
  { packages }: Pick<TenantPolicy, 'packages'>,
  access: PackageAccess | null,
): TaskRefusal | null {
  if (packages[registry].length === 0)
    return new TaskRefusal(
      'policy_denied',
      'packages_not_allowed',
      `The tenant's policy allows no packages of ${registry}. ` +
        `An operator can allow some with packages.${registry}.`,
    )
  const why = access === null ? 'this worker has no package proxy' : access.unavailable(registry)
  return why === null
    ? null
    : new TaskRefusal(
        'provisioning',
        'packages_unavailable',
        `Packages of ${registry} cannot be fetched here: ${why}.`,
      )
}

/**
 * Plans an install. Throws TaskRefusal if there is no manifest, or if the policy or this worker does not
 * allow packages.
 */
export async function planInstall(
  asked: Install,
  sandbox: Pick<Sandbox, 'list' | 'read'>,
  tenant: Pick<TenantPolicy, 'packages'>,
  access: PackageAccess | null,
): Promise<InstallPlan> {
  const folder = asked.path ?? ''
  const prefix = folder === '' ? '' : `${folder}/`
  const entries = await sandbox.list(
    MANIFESTS.map(([name]) => prefix + name),
    MANIFESTS.length,
  )
  const found = new Set(entries.map(({ path }) => path.slice(prefix.length)))
  const usable = MANIFESTS.filter(
    ([name, manager]) =>
      found.has(name) && (asked.manager === undefined || accepts(asked.manager, name, manager)),
  )
  const manifest = usable[0]?.[0]
  if (manifest === undefined) throw noManifest(asked, folder)
  const manager = asked.manager ?? usable[0]?.[1] ?? 'npm'
  const refusal = refusalOf(registryOf(manager), tenant, access)
  if (refusal !== null) throw refusal
  const lock =
    access !== null && (manifest === 'yarn.lock' || manifest === 'pnpm-lock.yaml')
      ? await readNodeLock(sandbox, prefix + manifest, (text) => access.redirectLock(text))
      : null
  const command = commandOf(manager, manifest, lock?.text ?? null)
  const up = folder === '' ? '.' : folder.replaceAll(/[^/]+/g, '..')
  const shell = [
    ...Object.entries(access?.environment() ?? {}).map(([name, value]) => `export ${name}=${quoted(value)}`),
    ...(registryOf(manager) === 'npm' ? [NPM_PROXY] : []),
    ...(folder === '' ? [] : [`cd -- ${quoted(folder)} || exit 1`]),
    ...command.run(up),
  ]
  return {
    manager,
    shown: command.shown,
    program: { type: 'command', shell: shell.join('\n') },
    lock: lock?.redirected ?? null,
  }
}

/**
 * A project's .npmrc may name a proxy of another network. These variables take precedence, so npm uses the
 * sandbox's proxy, which is its only way out.
 */
const NPM_PROXY =
  'export npm_config_proxy="$HTTP_PROXY" npm_config_https_proxy="$HTTPS_PROXY" npm_config_noproxy="$NO_PROXY" ' +
  'pnpm_config_http_proxy="$HTTP_PROXY" pnpm_config_https_proxy="$HTTPS_PROXY" pnpm_config_no_proxy="$NO_PROXY"'

/**
 * If the caller names npm, yarn or pnpm, a package.json is enough, because these managers also work without a
 * lock file.
 */
function accepts(named: PackageManager, manifest: string, usual: PackageManager): boolean {
  return named === usual || (manifest === 'package.json' && named !== 'pip')
}

function noManifest({ manager }: Install, folder: string): TaskRefusal {
  const names = MANIFESTS.filter(([name, usual]) => manager === undefined || accepts(manager, name, usual))
  const where = folder === '' ? 'the work directory' : folder
  return new TaskRefusal(
    'error',
    'no_manifest',
    `There is nothing to install in ${where}: none of ${names.map(([name]) => name).join(', ')} is there. ` +
      "Name the program's path, or send the file.",
  )
}

interface Command {
  shown: string
  /** Lines of shell. `up` is the path from the manifest's folder to the work directory. */
  run(up: string): string[]
}

const missing = (what: string): string => `{ echo "${what} is not in this sandbox" >&2; exit 127; }`

function commandOf(manager: PackageManager, manifest: string, lock: string | null): Command {
  switch (manager) {
    case 'pip': {
      const what = manifest === 'requirements.txt' ? '-r requirements.txt' : '.'
      const quiet = '--no-input --disable-pip-version-check --no-warn-script-location'
      return {
        shown: `pip install ${what}`,
        run: (up) => [
          `python3 -m pip --version >/dev/null 2>&1 || ${missing('pip')}`,
          `exec python3 -m pip install ${quiet} --upgrade --target ${up}/${PYTHON_PACKAGES_FOLDER} ${what}`,
        ],
      }
    }
    case 'npm': {
      const verb = manifest === 'package.json' ? 'install' : 'ci'
      return {
        shown: `npm ${verb}`,
        run: () => [
          `command -v npm >/dev/null || ${missing('npm')}`,
          `exec npm ${verb} --no-audit --no-fund --no-update-notifier`,
        ],
      }
    }
    case 'yarn':
      return yarnCommand(lock)
    case 'pnpm': {
      const args = manifest === 'package.json' ? 'install' : 'install --frozen-lockfile'
      return {
        shown: `pnpm ${args}`,
        run: () => [
          `if command -v pnpm >/dev/null; then exec pnpm ${args}; fi`,
          ...npx('pnpm', pnpmFor(lock ?? ''), args),
        ],
      }
    }
  }
}

const npx = (program: string, from: string, args: string): string[] => [
  `command -v npx >/dev/null || ${missing(program)}`,
  `exec npx --yes --package ${from} ${program} ${args}`,
]

/** yarn 1 and later versions share neither options nor lock files. `lock` is null without a lock file. */
function yarnCommand(lock: string | null): Command {
  const classic = `install${lock === null ? '' : ' --frozen-lockfile'} --non-interactive`
  // yarn updates a lock file that one of its earlier releases (2 or later) wrote. --immutable would refuse
  // that.
  const berry = 'install --no-immutable'
  const prepared = [
    'export YARN_HTTP_PROXY="$HTTP_PROXY" YARN_HTTPS_PROXY="$HTTPS_PROXY"',
    // By default yarn uses Plug'n'Play, which works only for programs that yarn itself starts.
    "grep -qs '^nodeLinker:' .yarnrc.yml || export YARN_NODE_LINKER=node-modules",
  ]
  const isNew = lock !== null && isBerry(lock)
  const installed = [
    ...(isNew ? [] : [`1.*) exec yarn ${classic};;`]),
    ...(isNew || lock === null ? [`[2-9].*) exec yarn ${berry};;`] : []),
  ]
  return {
    shown: isNew ? `yarn ${berry}` : `yarn install${lock === null ? '' : ' --frozen-lockfile'}`,
    run: () => [
      ...prepared,
      `case "$(yarn --version 2>/dev/null)" in ${installed.join(' ')} esac`,
      ...npx('yarn', yarnFor(lock ?? ''), isNew ? berry : classic),
    ],
  }
}
