"""Rows that are not drawn, and what compares them with TensorFlow, or why nothing has to."""

CONTROL_FLOW = "loops and branches of control_flow_cases.py"
GRAPHS = "every graph that TensorFlow writes has them"
OWN = "Tutti's own; made by passes and gradients of graphs that are compared, with passes and without"
STRICT = "Tutti's own: strict synchronous replicas; tests/ops"
TRANSPORT = "made when a graph is cut between devices; TensorFlow's clients do not send them"

COMPARED_OTHERWISE = {
    **dict.fromkeys(["Const", "Placeholder", "NoOp"], GRAPHS),
    "PlaceholderV2": "as Placeholder; TensorFlow has withdrawn it",
    "TopK": "as TopKV2; TensorFlow has withdrawn it",
    "RandomCrop": "TensorFlow has withdrawn it; tests/ops of images",
    "ControlTrigger": CONTROL_FLOW,
    **dict.fromkeys(["Switch", "Merge", "Enter", "Exit", "NextIteration", "LoopCond"], CONTROL_FLOW),
    **dict.fromkeys(["RefSwitch", "RefMerge", "RefEnter", "RefExit", "RefNextIteration", "RefIdentity", "RefSelect"],
                    "tests/ops of control flow: TensorFlow's clients hardly write them"),
    **dict.fromkeys(["If", "StatelessIf", "While", "StatelessWhile", "Case", "StatelessCase", "PartitionedCall",
                     "StatefulPartitionedCall", "FakeParam"], CONTROL_FLOW),
    **dict.fromkeys(["_Arg", "_Retval", "_ArrayToList", "_ListToArray", "_FusedElementwise", "_FusedMatMul", "_MatMulAdd",
                     "_FusedConv2D", "_FusedBiasAdd",
                     "_MaxPoolReluGrad", "_ProdGrad",
                     "_ExtractImagePatchesGrad", "_RGBToHSVGrad"],
                    OWN),
    **dict.fromkeys(["TuttiShardAccumulator", "TuttiSparseShardAccumulator", "TuttiShardApplyGradient",
                     "TuttiSparseShardApplyGradient", "TuttiShardTakeGradient", "TuttiSparseShardTakeGradient",
                     "TuttiShardSetStep", "TuttiShardBoard", "TuttiNextShard", "TuttiAttendShards",
                     "TuttiGiveBackShards", "TuttiOpenShards", "TuttiCloseShards", "TuttiTeamSize",
                     "TuttiGradientLedger"], STRICT),
    **dict.fromkeys(["Stage", "Unstage", "StagePeek", "StageSize", "StageClear", "Barrier", "BarrierInsertMany",
                     "BarrierTakeMany", "BarrierClose", "BarrierReadySize", "BarrierIncompleteSize"],
                    "staging_scripts.py"),
    **dict.fromkeys(["PyFunc", "PyFuncStateless", "EagerPyFunc"], "refused: the function lives in the client"),
    **dict.fromkeys(["_Send", "_Recv", "_HostSend", "_HostRecv"], TRANSPORT),
    # Files: written here and read by TensorFlow, and the other way round.
    **dict.fromkeys(["SaveV2", "RestoreV2", "MergeV2Checkpoints", "Save", "SaveSlices", "Restore", "RestoreSlice"],
                    "checkpoint comparison of tests/interop"),
    "ImageSummary": "tests/ops of summaries: PNG bytes depend on the compressor",
    "AudioSummaryV2": "tests/ops of summaries: the bytes are a sound file's",
    **dict.fromkeys(["IdentityReader", "WholeFileReader", "TextLineReader", "FixedLengthRecordReader",
                     "TFRecordReader", "ReaderRead", "ReaderReadUpTo", "ReaderNumRecordsProduced",
                     "ReaderNumWorkUnitsCompleted", "ReaderSerializeState", "ReaderRestoreState", "ReaderReset"],
                    "as V2, with another form of handle; TensorFlow has withdrawn these readers"),
    **dict.fromkeys(["CollectiveBcastRecv", "CollectiveBcastRecvV2", "CollectiveReduceScatterV2", "CollectiveAllToAllV2",
                     "NcclAllReduce", "NcclReduce", "NcclBroadcast", "CollectivePermute"],
                    "TensorFlow refuses them on the CPU, or in a group of one; tests/ops of collectives"),
    **dict.fromkeys(["CollectiveInitializeCommunicator", "CollectiveAssignGroupV2", "CollectiveReduceV3",
                     "CollectiveAllToAllV3"], "refused: there are no communicators; tests/ops of collectives"),
    "DisableCopyOnRead": "a hint without a result",
    "MaxPoolGradGradWithArgmax": "TensorFlow has no kernel for it on the CPU; tests/ops",
    "PrintV2": "writes to standard error; tests/ops",
    "StatefulStandardNormal": "as StatefulStandardNormalV2; TensorFlow has withdrawn it",
    "RandomPoisson": "as RandomPoissonV2; TensorFlow has withdrawn it",
    "NonDeterministicInts": "from entropy; tests/ops of random numbers",
    **dict.fromkeys(["MutableHashTableOfTensors", "MutableHashTableOfTensorsV2",
                     "MutableDenseHashTableV2"], "tables of state_scripts.py"),
}


def types_left_out(op, types):
    """Why an op is not compared in these types, in which one of the two has a kernel that computes and the other has none;
    else None."""
    if op in ("ResourceScatterNdAdd", "ResourceScatterNdSub") and types["T"] == "bool":
        return "sums of booleans"
    if op == "Where" and types["T"] == "half":
        return "half, of which TensorFlow's kernel only says that it has none"
    return None
