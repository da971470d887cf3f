// The committed guest against this side of the protocol, over pipes.
import { residentSuite } from "../../test/resident/suite.ts";

residentSuite("resident supervisor", () => undefined);
