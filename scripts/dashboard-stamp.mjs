/**
 * One hash of everything that the dashboard's build depends on: its files, the tsconfig.json that its own
 * extends, and the locked versions of its packages. The pages import only types from our libraries, so a
 * change there does not change the build.
 *
 * Plain JavaScript without dependencies, like bootstrap.mjs, which imports it.
 */
import { createHash } from 'crypto'
import fs from 'fs'
import path from 'path'

/** The folder of the pages, from the root of the tree. */
export const DASHBOARD = 'apps/dashboard'

/** What tools make: `dist-…` is a build on its way. */
const MADE = /^(node_modules|dist(-.*)?|coverage|\.turbo)$/
const CONFIG = /^vite\.config\.[cm]?[jt]s$/

/** Whether there are pages to build. */
export function hasDashboard(root) {
  const folder = path.join(root, DASHBOARD)
  return fs.existsSync(folder) && fs.readdirSync(folder).some((name) => CONFIG.test(name))
}

/** The hash in hex. */
export function dashboardStamp(root) {
  const hash = createHash('sha256')
  const own = filesBelow(path.join(root, DASHBOARD)).map((file) => path.posix.join(DASHBOARD, file))
  const shared = ['tsconfig.json'].filter((file) => fs.existsSync(path.join(root, file)))
  for (const file of own.concat(shared).sort()) {
    const bytes = fs.readFileSync(path.join(root, file))
    hash.update(JSON.stringify([file, bytes.length])).update(bytes)
  }
  return hash.update(JSON.stringify(lockedPackages(root))).digest('hex')
}

/**
 * Paths of files below `folder`, without what tools make. Tests are included, so that no rule has to tell
 * them apart from sources.
 */
function filesBelow(folder, below = '') {
  return fs.readdirSync(path.join(folder, below), { withFileTypes: true }).flatMap((entry) => {
    const name = path.posix.join(below, entry.name)
    if (entry.isDirectory()) return MADE.test(entry.name) ? [] : filesBelow(folder, name)
    return entry.isFile() ? [name] : []
  })
}

/**
 * Every package that the dashboard needs, directly or not, as `[place in node_modules, version, integrity]`.
 */
function lockedPackages(root) {
  const { packages } = JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
  const found = new Map()
  const visit = (place) => {
    const entry = place === undefined ? undefined : packages[place]
    if (entry === undefined || entry.link || found.has(place)) return
    found.set(place, [place, entry.version, entry.integrity])
    const { dependencies, optionalDependencies, peerDependencies, devDependencies } = entry
    const needed = Object.assign({}, dependencies, optionalDependencies, peerDependencies)
    // The lockfile lists the devDependencies of workspaces only.
    for (const name of Object.keys(Object.assign(needed, devDependencies)))
      visit(placeOf(packages, place, name))
  }
  visit(DASHBOARD)
  // Vite comes with vitest if the dashboard does not declare it.
  visit('node_modules/vite')
  return [...found.values()].sort(([a], [b]) => (a < b ? -1 : 1))
}

/** Where Node finds `name` from the package at `from`: in its own node_modules, else in those above. */
function placeOf(packages, from, name) {
  for (let at = from; ; at = at.slice(0, Math.max(0, at.lastIndexOf('/')))) {
    const place = path.posix.join(at, 'node_modules', name)
    if (packages[place] !== undefined) return place
    // An optional package of another platform.
    if (at === '') return undefined
  }
}
