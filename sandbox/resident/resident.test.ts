// The committed guest against this side of the protocol: over its pipes, and over the connection that it makes itself.
import { residentSuite } from "../../test/resident/suite.ts";

residentSuite("resident supervisor", () => undefined);
residentSuite("resident supervisor that dials", () => undefined, "dial");
