// The families of ops that reach out of the graph into the machine. Part of register_all_ops.
#pragma once

namespace tutti {

class OpTable;

void register_audio_ops(OpTable& ops);           // DecodeWav, EncodeWav
void register_checkpoint_ops(OpTable& ops);      // SaveV2, RestoreV2 and their kin
void register_file_ops(OpTable& ops);            // ReadFile, WriteFile, MatchingFiles
void register_image_file_ops(OpTable& ops);      // DecodeJpeg, EncodePng and their kin
void register_parse_example_ops(OpTable& ops);   // ParseExample and its kin
void register_parse_sequence_ops(OpTable& ops);  // ParseSequenceExample and its kin
void register_reader_ops(OpTable& ops);          // TFRecordReaderV2, ReaderReadV2 and their kin
void register_parse_ops(OpTable& ops);           // DecodeCSV, ParseTensor, DecodePaddedRaw

}  // namespace tutti
