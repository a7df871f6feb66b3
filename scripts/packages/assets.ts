/** Files that programs read beside their modules: Lua, SQL, Python and the like. */
import { copyFile, glob, mkdir } from 'node:fs/promises'
import path from 'node:path'

/** What is not read at run time: sources, tests, pages and what tools leave behind. */
const NOT_READ = /(^|\/)(node_modules|test|conformance|__pycache__)\/|\.tsx?$|\.md$|\.test\.|package\.json$/

/** Copies the assets of these folders below `root` to the same places below `outDir`. */
export async function copyAssets(root: string, outDir: string, dirs: Iterable<string>): Promise<void> {
  for (const dir of dirs) {
    for await (const entry of glob(`${dir}/**/*`, { cwd: root, withFileTypes: true })) {
      const file = path.relative(root, path.join(entry.parentPath, entry.name))
      if (!entry.isFile() || NOT_READ.test(file)) continue
      await mkdir(path.join(outDir, path.dirname(file)), { recursive: true })
      await copyFile(path.join(root, file), path.join(outDir, file))
    }
  }
}
