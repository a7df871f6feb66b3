/** A separate process that migrates the database given as first argument. */
import { migrate } from '../src/migrate.ts'

await migrate(process.argv[2] ?? '')
