/**
 * The first program of every npm script: installs if the lockfile changed, then runs the script on the pinned
 * Node.
 *
 *   node scripts/bootstrap.mjs <script.ts> [arguments …]
 *
 * Plain JavaScript without dependencies, which every Node with modules can parse, because it runs before `npm
 * ci` on whatever Node the machine has. There are no pre/post npm scripts, because `ignore-scripts` would
 * skip them. It promises:
 *   pages     Before `up` and `api`, the dashboard is built if its sources changed (build-dashboard.mjs). A
 *             failure is told, and the API runs without pages.
 *   install   `npm ci` runs only when the lockfile or a package.json differs from the stamp in node_modules.
 *             Two concurrent bootstraps install once (lock file with a heartbeat; a dead holder loses it).
 *   child     It inherits stdio, and this process ends with its status or signal (run-child.mjs).
 */
import { createHash } from 'crypto'
import fs from 'fs'
import os from 'os'
import path from 'path'
import { fileURLToPath } from 'url'
import { buildDashboard } from './build-dashboard.mjs'
import { settlePinnedNode } from './pinned-node.mjs'
import { endLike, run } from './run-child.mjs'

const OLDEST_NODE = 18
/** From this version Node runs .ts files, so it can replace the pinned binary on musl and Windows. */
const OLDEST_TYPE_STRIPPING_NODE = 24
const LOCK_HEARTBEAT_MS = 1000
/** Fifteen missed heartbeats: longer than any pause of a busy machine. */
const LOCK_STALE_MS = 15000

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const modules = path.join(root, 'node_modules')
const stampFile = path.join(modules, '.cofferdam-stamp')
const lockFile = path.join(root, '.cache', 'bootstrap.lock')
const nodeMajor = Number(process.versions.node.split('.')[0])

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

function fail(message) {
  process.stderr.write('cofferdam: ' + message + '\n')
  process.exit(1)
}

/** A digest of everything that determines what `npm ci` installs. */
function wantedStamp() {
  const hash = createHash('sha256').update(process.platform + ' ' + process.arch + '\n')
  const files = ['package-lock.json', 'package.json']
  for (const group of ['apps', 'libs']) {
    const dir = path.join(root, group)
    const names = fs.existsSync(dir) ? fs.readdirSync(dir).sort() : []
    for (const name of names) files.push(path.join(group, name, 'package.json'))
  }
  for (const file of files) {
    const full = path.join(root, file)
    if (fs.existsSync(full)) hash.update(file + '\n').update(dependenciesOf(full))
  }
  return hash.digest('hex')
}

/** The parts of a package.json that affect the install. A changed script must not cause a reinstall. */
function dependenciesOf(file) {
  const text = fs.readFileSync(file)
  if (path.basename(file) !== 'package.json') return text
  const all = JSON.parse(text)
  const keys = ['name', 'version', 'workspaces', 'bin', 'allowScripts', 'overrides']
  for (const kind of ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'])
    keys.push(kind)
  return JSON.stringify(keys.map((key) => all[key]))
}

function installedStamp() {
  try {
    return fs.readFileSync(stampFile, 'utf8')
  } catch {
    return null
  }
}

function writeStamp(wanted) {
  try {
    fs.writeFileSync(stampFile, wanted)
  } catch {
    // The stamp cannot be written, because the tree belongs to another user. The next start compares again,
    // which costs milliseconds.
  }
}

/** True when a user ran npm and node_modules already matches the lockfile. */
function installedByHand() {
  try {
    const read = (file) => JSON.parse(fs.readFileSync(file, 'utf8')).packages
    const wanted = read(path.join(root, 'package-lock.json'))
    // npm writes its own record of the tree last, so its presence shows that the install was completed.
    const have = read(path.join(modules, '.package-lock.json'))
    const same = (key) =>
      have[key] ? have[key].version === wanted[key].version : wanted[key].optional === true
    return Object.keys(wanted).every((key) => key === '' || same(key))
  } catch {
    return false
  }
}

function isAlive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error.code === 'EPERM'
  }
}

/** True when the holder of the lock died without releasing it. */
function lockIsAbandoned() {
  let holder, age
  try {
    age = Date.now() - fs.statSync(lockFile).mtimeMs
    holder = fs.readFileSync(lockFile, 'utf8').split(' ')
  } catch {
    return false // released at this moment: the next attempt takes it
  }
  if (age > LOCK_STALE_MS) return true
  return holder.length === 2 && holder[1] === os.hostname() && !isAlive(Number(holder[0]))
}

/** Acquires the install lock. Resolves with the function that releases it. */
async function takeLock() {
  let told = false
  for (;;) {
    try {
      fs.mkdirSync(path.dirname(lockFile), { recursive: true })
      fs.writeFileSync(lockFile, process.pid + ' ' + os.hostname(), { flag: 'wx' })
      break
    } catch (error) {
      if (error.code === 'ENOENT') continue // a releasing process removed the empty folder just now
      if (error.code !== 'EEXIST') {
        fail(
          'dependencies must be installed, but ' +
            root +
            ' is not writable for this user (' +
            error.code +
            ').\n' +
            'Run the command once as the owner of that folder, or clone the repository into a folder of your own.',
        )
      }
    }
    if (lockIsAbandoned()) {
      // The rename decides between two processes that see the same dead holder: only one finds the file.
      const aside = lockFile + '.' + process.pid
      try {
        fs.renameSync(lockFile, aside)
        fs.unlinkSync(aside)
      } catch (error) {
        if (error.code !== 'ENOENT')
          fail('cannot remove ' + lockFile + ' (' + error.code + '); remove it by hand.')
      }
      continue
    }
    if (!told) process.stderr.write('cofferdam: another start is installing dependencies; waiting for it.\n')
    told = true
    await sleep(250)
  }
  const heartbeat = setInterval(() => {
    const now = new Date()
    try {
      fs.utimesSync(lockFile, now, now)
    } catch {
      // Another process took the lock over during a long pause of this one. Both may then run npm. The tree
      // stays consistent enough.
    }
  }, LOCK_HEARTBEAT_MS)
  return () => {
    clearInterval(heartbeat)
    try {
      fs.unlinkSync(lockFile)
      fs.rmdirSync(path.dirname(lockFile))
    } catch {
      // The folder is already gone, or contains files of another process.
    }
  }
}

/** npm as a command line: the npm that runs us, or the one on PATH. */
function npmCommand() {
  const cli = process.env.npm_execpath || ''
  if (/^npm-cli\.c?js$/.test(path.basename(cli)) && fs.existsSync(cli)) return [process.execPath, cli]
  return [process.platform === 'win32' ? 'npm.cmd' : 'npm']
}

/** Brings node_modules up to date. Resolves with how npm ended if a signal ended it, else with nothing. */
async function install(wanted) {
  const giveBack = await takeLock()
  process.on('exit', giveBack)
  try {
    if (installedStamp() === wanted) return undefined // another process installed while we waited
    const again = fs.existsSync(modules)
    process.stderr.write(
      again
        ? 'cofferdam: dependencies changed; running npm ci.\n'
        : 'cofferdam: first start; installing dependencies with npm ci (about a minute, 250 MB, once).\n',
    )
    fs.rmSync(stampFile, { force: true })
    const [command, ...before] = npmCommand()
    // `--include` overrides NODE_ENV=production and a user's omit setting: tests need `dev`, the pinned Node
    // needs `optional`.
    const args = ['ci', '--loglevel=error', '--include=dev', '--include=optional']
    // npm's output goes to stderr. stdout belongs to the script, because `cofferdam mcp` and --json print for
    // machines.
    const end = await run(command, before.concat(args), process.env, root, process.stderr)
    if (end.error && end.error.code === 'ENOENT') {
      fail(
        'npm was not found on PATH. Install Node.js 20 or newer together with npm, then run the command again.',
      )
    }
    if (end.error) fail('npm could not be started: ' + end.error.message)
    if (end.signal || end.status === 130) return end
    if (end.status !== 0) {
      fail(
        'npm ci failed with status ' +
          end.status +
          ' (its message stands above).\n' +
          '  no network or a proxy:  see `npm config get registry`, `npm config get proxy`, then `npm ping`\n' +
          '  disk full:              about 800 MB are needed in ' +
          root +
          '\n' +
          '  lockfile out of step:   `git checkout package-lock.json package.json`\n' +
          'Then run the same command again.',
      )
    }
    // Before the lock is released, so that waiting processes find everything done.
    settlePinnedNode(root)
    writeStamp(wanted)
    return undefined
  } finally {
    giveBack()
    process.removeListener('exit', giveBack)
  }
}

/** Whether the script starts an API, which serves the dashboard. `--once` ends before anybody looks at it. */
function servesPages([script, command, ...rest]) {
  const starts = command === 'up' || command === 'api'
  return script === 'apps/cli/src/main.ts' && starts && !rest.includes('--once') && !rest.includes('--help')
}

/** Builds the dashboard if its sources changed. Resolves with how vite ended if a signal ended it. */
async function bringPages(node) {
  try {
    const done = await buildDashboard(root, node)
    if (done === 'built') process.stderr.write('cofferdam: built the dashboard.\n')
  } catch (error) {
    if (error.end && (error.end.signal || error.end.status === 130)) return error.end
    process.stderr.write(
      'cofferdam: the dashboard was not built: ' + error.message + '\n  The API works without it.\n',
    )
  }
  return undefined
}

async function main() {
  if (!(nodeMajor >= OLDEST_NODE)) {
    fail(
      'Node.js ' +
        process.versions.node +
        ' is too old; install Node.js 20 or newer and run the command again.',
    )
  }
  const args = process.argv.slice(2)
  if (args.length === 0) fail('usage: node scripts/bootstrap.mjs <script> [arguments …]')
  const wanted = wantedStamp()
  const pinned = path.join(modules, '.bin', process.platform === 'win32' ? 'node.exe' : 'node')
  if (installedStamp() !== wanted) {
    if (installedByHand()) {
      settlePinnedNode(root)
      writeStamp(wanted)
    } else {
      const stopped = await install(wanted)
      if (stopped) return endLike(stopped)
    }
  }
  const settled = fs.existsSync(pinned) ? { node: pinned } : settlePinnedNode(root)

  const env = Object.assign({}, process.env, {
    PATH: path.dirname(pinned) + path.delimiter + (process.env.PATH || ''),
  })
  if (!env.NODE_COMPILE_CACHE) env.NODE_COMPILE_CACHE = path.join(modules, '.cache', 'node-compile-cache')
  // If the pinned Node does not start (musl, Windows), a new enough Node of the machine is used.
  if (!settled.node && !(nodeMajor >= OLDEST_TYPE_STRIPPING_NODE)) {
    fail(
      'the Node.js that npm installed does not start here: ' +
        settled.why +
        '\nThen run the command again. ' +
        'Or install Node.js ' +
        OLDEST_TYPE_STRIPPING_NODE +
        ' or newer: Node.js ' +
        process.versions.node +
        ' cannot run TypeScript.',
    )
  }
  const node = settled.node || process.execPath
  const interrupted = servesPages(args) ? await bringPages(node) : undefined
  if (interrupted) return endLike(interrupted)
  const rest = [path.resolve(root, args[0])].concat(args.slice(1))
  const end = await run(node, rest, env, process.cwd())
  if (end.error) fail('cannot start Node.js: ' + end.error.message)
  return endLike(end)
}

main().catch((error) => fail(error && error.stack ? error.stack : String(error)))
