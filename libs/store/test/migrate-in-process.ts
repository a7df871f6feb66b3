/** A process of its own that migrates the database of its first argument. */
import { migrate } from '../src/migrate.ts'

await migrate(process.argv[2] ?? '')
